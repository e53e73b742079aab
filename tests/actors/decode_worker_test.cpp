#include <doctest/doctest.h>

#include <caf/all.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include "actors/conversions.hpp"
#include "tests/actors/toy_cluster.hpp"

namespace yolk::tests {

namespace {

namespace schema = messages::schema;
constexpr auto patience = std::chrono::seconds(240);
constexpr actors::leg_header header{77, 77, 0};

messages::generate_request request_of(const std::vector<core::token_id>& tokens) {
  core::sampling_params params;
  params.max_tokens = 40;
  params.ignore_eos = true;
  const std::vector<std::uint64_t> seeds = {1};
  return messages::generate_request::build([&](schema::GenerateRequest::Builder builder) {
    actors::write(builder.initHeader(), header, core::incarnation{1});
    builder.setTokens(actors::as_data(tokens));
    builder.setPromptLength(static_cast<std::uint32_t>(tokens.size()));
    actors::write(builder.initSampling(), params, seeds);
    actors::write(builder.initRoot(), kvcache::make_root({.model = "toy"}));
    builder.setChoiceCount(1);
  });
}

/// What a prefill worker hands over whose pushes wrote nothing but zeros, as fresh blocks hold them.
messages::kv_handoff handoff_of(std::size_t block_count) {
  const std::vector<std::byte> zeros(toy_layout.layer_bytes());
  const std::vector<std::uint64_t> sums(block_count * toy_layout.layer_count, kvcache::checksum(zeros));
  return messages::kv_handoff::build([&](schema::KvHandoff::Builder builder) {
    actors::write(builder.initHeader(), header, core::incarnation{1});
    auto choices = builder.initChoices(1);
    choices[0].setChoice(0);
    choices[0].setFirstToken(5);
    builder.setChecksums(actors::as_data(sums));
  });
}

messages::reserve_blocks reserve_message() {
  return messages::reserve_blocks::build([&](schema::ReserveBlocks::Builder builder) {
    actors::write(builder.initHeader(), header, core::incarnation{1});
  });
}

/// How many tokens the worker makes for a leg that is reserved, perhaps cancelled, and handed over.
std::size_t tokens_after_handoff(bool cancelled) {
  toy_cluster cluster({.prefill_workers = 0});
  caf::scoped_actor self{cluster.system()};
  const auto worker = caf::actor_cast<messages::decode_worker_actor>(cluster.decode(0));
  auto count = std::make_shared<std::atomic<std::size_t>>(0);
  const messages::session_actor session = cluster.system().spawn([count] {
    return messages::session_actor::behavior_type{[count](const messages::token_batch&) { ++*count; },
                                                  [](const messages::leg_failed&) {}};
  });
  const std::vector<core::token_id> tokens = {1, 2, 3, 4, 5, 6};
  const auto request = request_of(tokens);
  std::size_t blocks = 0;
  self->request(worker, patience, reserve_message(), request, session)
      .receive(
          [&](const messages::reservation_granted& granted) {
            blocks = granted.read()->getBlocks().size() / sizeof(core::block_index);
          },
          [](const caf::error&) {});
  REQUIRE(blocks == toy_layout.blocks_for(6));
  if (cancelled) self->send(worker, actors::make_cancel_leg(header, core::incarnation{1}));
  self->send(worker, handoff_of(blocks), session, messages::cache_shard_actor());
  CHECK(cluster.settle() == "");
  self->send_exit(session, caf::exit_reason::user_shutdown);
  self->wait_for(session);
  return count->load();
}

/// What becomes of a reservation whose owner goes so: the session is told; are its blocks still held then?
bool held_after_owner_went(caf::exit_reason how) {
  toy_cluster cluster({.prefill_workers = 0});
  caf::scoped_actor self{cluster.system()};
  const auto worker = caf::actor_cast<messages::decode_worker_actor>(cluster.decode(0));
  const auto failure = std::make_shared<std::promise<schema::LegFailed::Reason>>();
  const messages::session_actor session = cluster.system().spawn([failure] {
    return messages::session_actor::behavior_type{
        [](const messages::token_batch&) {},
        [failure](const messages::leg_failed& failed) {
          CHECK(failed.read()->getHeader().getLegId() == header.leg);
          failure->set_value(failed.read()->getReason());
        }};
  });
  const auto granted = std::make_shared<std::promise<void>>();
  const caf::actor owner = cluster.system().spawn([=](caf::event_based_actor* prefill) -> caf::behavior {
    prefill->request(worker, patience, reserve_message(), request_of({1, 2, 3, 4, 5, 6}), session)
        .then([granted](const messages::reservation_granted&) { granted->set_value(); });
    return {[](int) {}};
  });
  REQUIRE(granted->get_future().wait_for(patience) == std::future_status::ready);
  caf::anon_send_exit(owner, how);
  auto told = failure->get_future();
  REQUIRE(told.wait_for(patience) == std::future_status::ready);
  CHECK(told.get() == schema::LegFailed::Reason::WORKER_LOST);
  bool held = false;
  self->request(worker, patience, messages::status_request::build([](auto) {}))
      .receive(
          [&](const messages::actor_status& status) {
            held = status.read()->getBlocksUsed() > 0;
            CHECK(status.read()->getWaiting() == 0);
          },
          [](const caf::error&) { FAIL("no status"); });
  self->send_exit(session, caf::exit_reason::user_shutdown);
  self->wait_for(session);
  return held;
}

}  // namespace

TEST_CASE("a leg that is handed over is generated to its end") {
  CHECK(tokens_after_handoff(false) == 39);  // the first of the 40 was the prefill worker's
}

TEST_CASE("a cancel that overtakes the handoff is kept: nothing is generated for nobody") {
  CHECK(tokens_after_handoff(true) == 0);
}

TEST_CASE("the session hears of a prefill worker that dies between its last report and the handoff") {
  CHECK_FALSE(held_after_owner_went(caf::exit_reason::kill));
}

TEST_CASE(
    "the blocks of a prefill worker that is only out of reach rest: it may wake, and write within its "
    "lease") {
  CHECK(held_after_owner_went(caf::exit_reason::remote_link_unreachable));
}

}  // namespace yolk::tests
