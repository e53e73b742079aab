#include <doctest/doctest.h>

#include <caf/all.hpp>
#include <chrono>
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
  const auto ask = messages::reserve_blocks::build([&](schema::ReserveBlocks::Builder builder) {
    actors::write(builder.initHeader(), header, core::incarnation{1});
  });
  std::size_t blocks = 0;
  self->request(worker, patience, ask, request)
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

}  // namespace

TEST_CASE("a leg that is handed over is generated to its end") {
  CHECK(tokens_after_handoff(false) == 39);  // the first of the 40 was the prefill worker's
}

TEST_CASE("a cancel that overtakes the handoff is kept: nothing is generated for nobody") {
  CHECK(tokens_after_handoff(true) == 0);
}

}  // namespace yolk::tests
