#include "transport/ucx_engine.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "core/invariant.hpp"
#include "transport/descriptor_seal.hpp"

namespace yolk::transport {
namespace {

/// A peer gets this much issued (over shared memory: copied, by the engine's thread) before the next peer
/// has its turn and deadlines are looked at: about 0.3 ms.
constexpr std::uint64_t turn_bytes = std::uint64_t{4} << 20;
/// What issuing costs at least, in bytes, so that many small slices end a turn too.
constexpr std::uint64_t min_slice_cost_bytes = 8192;
/// A new endpoint whose peer does not answer within this time is closed and opened anew at the next use.
constexpr core::duration greeting_limit = std::chrono::seconds(2);
/// UCX ends what a closed endpoint had open within microseconds. Should it not, completions wait no longer
/// than this.
constexpr core::duration closing_limit = std::chrono::milliseconds(500);

core::time_point saturating_deadline(core::time_point from, core::duration after) {
  return after > core::time_point::max() - from ? core::time_point::max() : from + after;
}

std::string name_of(const region_descriptor& region) {
  return "peer of incarnation " + std::to_string(region.owner.value);
}

core::failure<errc> link_failure(const peer& of, ucs_status_t status) {
  switch (status) {
    case UCS_ERR_REJECTED:
      return {errc::peer_unreachable, name_of(of.region) + ": its engine has ended"};
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
    case UCS_ERR_OUT_OF_RANGE:
      return {errc::transfer_failed, name_of(of.region) + ": " + ucs_status_string(status)};
    default:
      return {errc::peer_unreachable, name_of(of.region) + ": " + ucs_status_string(status)};
  }
}

// A string, whose order is one memcmp. (owner, base and length are in the remote key's checksum.)
std::string key_of(const region_descriptor& region) {
  std::string key;
  key.reserve(region.remote_key.size() + region.worker_address.size());
  for (const auto* part : {&region.remote_key, &region.worker_address}) {
    key.append(reinterpret_cast<const char*>(part->data()), part->size());
  }
  return key;
}

}  // namespace

// --- calls from any thread
// ------------------------------------------------------------------------------------------

ucx_engine::ucx_engine(const engine_options& options, std::unique_ptr<ucx_worker> worker)
    : options_(options), queue_(options.max_queued_transfers), worker_(std::move(worker)) {}

std::optional<core::failure<errc>> ucx_engine::start_thread() {
  if (const auto status = messages_.attach(*worker_)) {
    return failure{errc::setup_failed, std::string("UCX: active messages: ") + ucs_status_string(status)};
  }
  thread_ = std::thread([this] { run(); });
  return std::nullopt;
}

ucx_engine::~ucx_engine() {
  if (!thread_.joinable()) return;  // it never started
  YOLK_INVARIANT(std::this_thread::get_id() != thread_.get_id(), "a completion destroyed its engine");
  queue_.stop();
  worker_->wake();
  thread_.join();
}

void ucx_engine::put(const region_descriptor& to, std::vector<copy_range> ranges, core::duration deadline,
                     completion done) {
  const auto now = std::chrono::steady_clock::now();
  submit({submission_kind::put, to, std::move(ranges), now, saturating_deadline(now, deadline),
          std::move(done)});
}

void ucx_engine::get(const region_descriptor& from, std::vector<copy_range> ranges, core::duration deadline,
                     completion done) {
  const auto now = std::chrono::steady_clock::now();
  submit({submission_kind::get, from, std::move(ranges), now, saturating_deadline(now, deadline),
          std::move(done)});
}

void ucx_engine::forget(const region_descriptor& peer) {
  submit({submission_kind::forget, peer, {}, {}, {}, {}});
}

void ucx_engine::submit(submission asked) {
  const auto answer = queue_.push(asked);
  if (answer == submission_queue::answer::taken) return;
  if (answer == submission_queue::answer::taken_first) return worker_->wake();
  if (asked.kind == submission_kind::forget) return;
  transfers_count_.fetch_add(1, std::memory_order_relaxed);
  failures_count_.fetch_add(1, std::memory_order_relaxed);
  if (answer == submission_queue::answer::stopped) {
    return asked.done(failure{errc::stopped, "the engine is ending"});
  }
  asked.done(failure{errc::too_much_in_flight,
                     "the engine has " + std::to_string(options_.max_queued_transfers) + " transfers open"});
}

engine_counters ucx_engine::counters() const {
  engine_counters out;
  out.transfers = transfers_count_.load(std::memory_order_relaxed);
  out.failures = failures_count_.load(std::memory_order_relaxed);
  out.put_bytes = put_bytes_.load(std::memory_order_relaxed);
  out.get_bytes = get_bytes_.load(std::memory_order_relaxed);
  out.queued = queue_.open_transfers();
  return out;
}

// --- the thread
// -----------------------------------------------------------------------------------------------------

void ucx_engine::run() {
  while (!queue_.stopping()) {
    accept_all();
    settle();
    expire(std::chrono::steady_clock::now());
    const bool more_to_issue = issue_round();
    const bool progressed = worker_->progress();
    if (!more_to_issue && !progressed && ripe_.empty()) worker_->wait(next_deadline());
  }
  shut_down();
}

void ucx_engine::shut_down() {
  const failure stopped{errc::stopped, "the engine ended"};
  worker_->revoke();
  for (submission& asked : queue_.take()) {
    if (asked.kind != submission_kind::forget) refuse(asked, stopped);
  }
  for (auto& [key, peer] : peers_) fail_all(*peer, stopped);
  const auto give_up = std::chrono::steady_clock::now() + closing_limit;
  for (settle(); !closing_.empty() && std::chrono::steady_clock::now() < give_up; settle()) {
    if (!worker_->progress() && ripe_.empty()) worker_->wait(give_up);
  }
  for (closing_link& closing : closing_) {
    closing.link->disown_operations();
    for (transfer* victim : std::exchange(closing.victims, {})) finish_failed(*victim, *victim->failed);
    closing.link->release();
  }
  YOLK_INVARIANT(transfers_.empty(), transfers_.size());
}

std::optional<core::time_point> ucx_engine::next_deadline() const {
  std::optional<core::time_point> next;
  const auto consider = [&next](core::time_point at) { next = next ? std::min(*next, at) : at; };
  if (!deadlines_.empty()) consider(deadlines_.begin()->first);
  for (const peer* waiting : greeting_) consider(waiting->greeting_deadline);
  for (const closing_link& closing : closing_) {
    if (!closing.victims.empty()) consider(closing.give_up);
  }
  return next;
}

// --- taking calls in
// ------------------------------------------------------------------------------------------------

void ucx_engine::accept_all() {
  for (submission& asked : queue_.take()) {
    if (asked.kind == submission_kind::forget) {
      forget_now(asked.peer);
    } else {
      accept(std::move(asked));
    }
  }
}

void ucx_engine::accept(submission asked) {
  const auto found = find_peer(asked.peer);
  if (!found) return refuse(asked, found.error());
  peer& target = **found;
  const auto bytes = check_ranges(asked.ranges, {worker_->region().size(), target.region.length_bytes});
  if (!bytes) return refuse(asked, bytes.error());
  coalesce(asked.ranges);

  transfer& accepted = transfers_.emplace_back();
  accepted.self = std::prev(transfers_.end());
  accepted.direction = asked.kind == submission_kind::put ? transfer_direction::put : transfer_direction::get;
  accepted.cursor = range_cursor(std::move(asked.ranges));
  accepted.bytes = *bytes;
  accepted.submitted = asked.submitted;
  accepted.deadline = asked.deadline;
  accepted.done = std::move(asked.done);
  accepted.target = &target;
  accepted.timer = deadlines_.emplace(accepted.deadline, &accepted);
  target.waiting.push_back(&accepted);
  make_runnable(target);
}

result<peer*> ucx_engine::find_peer(const region_descriptor& region) {
  ++submissions_;
  auto key = key_of(region);
  if (const auto known = peers_.find(key); known != peers_.end()) {
    peer& found = *known->second;
    const region_descriptor& sealed = found.region;
    if (sealed.owner == region.owner && sealed.base_address == region.base_address &&
        sealed.length_bytes == region.length_bytes && sealed.remote_key.size() == region.remote_key.size()) {
      found.last_used = submissions_;
      return &found;
    }
  }
  const auto sound = open_descriptor(region);
  if (!sound) return sound.error();
  if (!make_room_for_peer()) {
    return failure{errc::too_much_in_flight,
                   "all " + std::to_string(options_.max_cached_peers) + " peers have transfers open"};
  }
  auto fresh = std::make_unique<peer>();
  fresh->region = region;
  fresh->keys = *open_descriptor(fresh->region);
  fresh->last_used = submissions_;
  return peers_.emplace(std::move(key), std::move(fresh)).first->second.get();
}

bool ucx_engine::make_room_for_peer() {
  // A new region often is the successor of one whose memory is still mapped here, and only we keep that
  // alive.
  std::vector<region_descriptor> ended;
  for (const auto& [key, known] : peers_) {
    if (known->idle() && known->link != nullptr && known->link->has_seen_the_end())
      ended.push_back(known->region);
  }
  for (const region_descriptor& region : ended) forget_now(region);
  if (peers_.size() < options_.max_cached_peers) return true;
  const auto oldest = std::min_element(peers_.begin(), peers_.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const peer& p) { return std::pair(!p.idle(), p.last_used); };
    return rank(*a.second) < rank(*b.second);
  });
  if (!oldest->second->idle()) return false;
  forget_now(region_descriptor(oldest->second->region));
  return true;
}

void ucx_engine::refuse(submission& asked, failure why) {
  transfers_count_.fetch_add(1, std::memory_order_relaxed);
  failures_count_.fetch_add(1, std::memory_order_relaxed);
  queue_.completed();
  asked.done(std::move(why));
}

void ucx_engine::forget_now(const region_descriptor& region) {
  const auto known = peers_.find(key_of(region));
  if (known == peers_.end()) return;
  peer& dead = *known->second;
  fail_all(dead, {errc::peer_unreachable, name_of(dead.region) + " is dead"});
  std::erase(runnable_, &dead);
  peers_.erase(known);
}

// --- what UCX has finished
// ------------------------------------------------------------------------------------------

void ucx_engine::settle() {
  while (!ripe_.empty()) {
    for (ucx_link* link : std::exchange(ripe_, {})) {
      auto finished = link->take_finished();
      if (peer* of = link->owner()) {
        settle_open(*of, finished);
      } else {
        settle_closing(*link, finished);
      }
    }
  }
  if (!closing_.empty()) reap_closed(std::chrono::steady_clock::now());
}

void ucx_engine::settle_open(peer& of, const std::list<operation>& finished) {
  std::optional<failure> broken;
  std::vector<transfer*> ended;
  bool has_greeted = false;
  for (const operation& done : finished) {
    if (done.status != UCS_OK) broken = link_failure(of, done.status);
    if (done.owner == nullptr) {
      has_greeted = true;
    } else if (--done.owner->open_operations == 0 && done.owner->state() == transfer_state::confirming) {
      ended.push_back(done.owner);
    }
  }
  if (!broken && of.link->peer_failure() != UCS_OK) broken = link_failure(of, of.link->peer_failure());
  if (broken) return fail_all(of, *broken);
  if (has_greeted) greeted(of);
  for (transfer* done : ended) finish_done(*done);
  if (!of.issuing.empty()) make_runnable(of);
}

void ucx_engine::settle_closing(ucx_link& link, const std::list<operation>& finished) {
  for (const operation& done : finished) {
    if (done.owner != nullptr) --done.owner->open_operations;
  }
  const auto closing = std::find_if(closing_.begin(), closing_.end(),
                                    [&link](const closing_link& each) { return each.link.get() == &link; });
  YOLK_INVARIANT(closing != closing_.end());
  std::vector<transfer*> ended;
  std::erase_if(closing->victims, [&ended](transfer* victim) {
    if (victim->open_operations != 0) return false;
    ended.push_back(victim);
    return true;
  });
  for (transfer* victim : ended) finish_failed(*victim, *victim->failed);
}

void ucx_engine::reap_closed(core::time_point now) {
  for (auto closing = closing_.begin(); closing != closing_.end();) {
    const bool closed = closing->link->closed();
    if (closed || now >= closing->give_up) {
      closing->link->disown_operations();
      for (transfer* victim : std::exchange(closing->victims, {})) finish_failed(*victim, *victim->failed);
    }
    if (closed) {
      closing->link->release();
      closing = closing_.erase(closing);
    } else {
      ++closing;
    }
  }
}

// --- deadlines
// ------------------------------------------------------------------------------------------------------

void ucx_engine::expire(core::time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now)
    expire_transfer(*deadlines_.begin()->second);
  std::vector<peer*> silent;
  for (peer* greeting : greeting_) {
    if (greeting->greeting_deadline <= now) silent.push_back(greeting);
  }
  for (peer* each : silent) {
    break_link(*each, {errc::peer_unreachable, name_of(each->region) + " does not answer"});
  }
}

void ucx_engine::expire_transfer(transfer& late) {
  const auto allowed =
      std::chrono::duration_cast<std::chrono::milliseconds>(late.deadline - late.submitted).count();
  failure why{errc::deadline_exceeded, "transfer of " + std::to_string(late.bytes) + " bytes with " +
                                           name_of(late.target->region) + " exceeded " +
                                           std::to_string(allowed) + " ms"};
  if (late.open_operations == 0) return finish_failed(late, std::move(why));
  // UCX holds its bytes. Only to close the endpoint takes them back, and with it go the other transfers on
  // it.
  late.failed = std::move(why);
  break_link(*late.target, {errc::peer_unreachable,
                            name_of(late.target->region) + ": another transfer exceeded its deadline"});
}

// --- handing to UCX
// -------------------------------------------------------------------------------------------------

void ucx_engine::make_runnable(peer& which) {
  if (which.runnable) return;
  which.runnable = true;
  runnable_.push_back(&which);
}

bool ucx_engine::issue_round() {
  for (peer* next : std::exchange(runnable_, {})) {
    next->runnable = false;
    if (issue(*next)) make_runnable(*next);
  }
  return !runnable_.empty();
}

bool ucx_engine::issue(peer& to) {
  if (to.state == peer::link_state::none && !to.waiting.empty()) connect(to);
  if (to.state != peer::link_state::open) return false;
  admit(to);
  if (const auto why = issue_slices(to)) {
    fail_all(to, *why);
    return false;
  }
  return !to.issuing.empty() && to.link->open_operations() < max_open_operations;
}

void ucx_engine::connect(peer& to) {
  auto opened =
      ucx_link::open({*worker_, messages_, ripe_, options_.access},
                     {to.keys, to.region.owner.value, to.region.base_address, to.region.length_bytes});
  if (!opened) {
    return fail_all(to, {opened.error().code, name_of(to.region) + ": " + opened.error().message});
  }
  to.link = std::move(*opened);
  to.link->set_owner(&to);
  if (to.link->peer_failure() != UCS_OK) return fail_all(to, link_failure(to, to.link->peer_failure()));
  to.state = peer::link_state::greeting;
  to.greeting_deadline = std::chrono::steady_clock::now() + greeting_limit;
  greeting_.push_back(&to);
  const auto status = to.link->greet();
  if (status == UCS_INPROGRESS) return;
  if (status != UCS_OK) return fail_all(to, link_failure(to, status));
  greeted(to);
}

void ucx_engine::greeted(peer& by) {
  by.state = peer::link_state::open;
  std::erase(greeting_, &by);
  make_runnable(by);
}

// A transfer larger than the limit goes alone.
void ucx_engine::admit(peer& to) const {
  while (!to.waiting.empty()) {
    transfer& next = *to.waiting.front();
    const bool fits = next.bytes <= options_.max_in_flight_bytes &&
                      to.in_flight_bytes <= options_.max_in_flight_bytes - next.bytes;
    if (!fits && to.in_flight_bytes > 0) return;
    to.waiting.pop_front();
    next.become(transfer_state::issuing);
    to.in_flight_bytes += next.bytes;
    to.active.push_back(&next);
    to.issuing.push_back(&next);
  }
}

std::optional<core::failure<errc>> ucx_engine::issue_slices(peer& to) {
  std::uint64_t budget = turn_bytes;
  while (!to.issuing.empty() && budget > 0 && to.link->open_operations() < max_open_operations) {
    transfer& next = *to.issuing.front();
    if (const auto slice = next.cursor.next(std::min(budget, to.link->max_piece_bytes()))) {
      const auto local = worker_->region().subspan(slice->local_offset, slice->bytes);
      const auto status = next.direction == transfer_direction::put
                              ? to.link->put(&next, local, slice->remote_offset)
                              : to.link->get(&next, local, slice->remote_offset);
      if (status == UCS_INPROGRESS) {
        ++next.open_operations;
      } else if (status != UCS_OK) {
        return link_failure(to, status);
      }
      budget -= std::min(budget, std::max(slice->bytes, min_slice_cost_bytes));
    }
    if (!next.cursor.at_end()) continue;
    to.issuing.pop_front();
    if (auto why = confirm(next)) return why;
  }
  return std::nullopt;
}

// The question whether the region lives follows the data on the same endpoint: a yes says that the engine
// that owned the region still ran when the data passed. For a put the flush makes "sent" into "visible at the
// target".
std::optional<core::failure<errc>> ucx_engine::confirm(transfer& all_issued) {
  peer& with = *all_issued.target;
  all_issued.become(transfer_state::confirming);
  const auto flushed =
      all_issued.direction == transfer_direction::put ? with.link->flush(&all_issued) : UCS_OK;
  if (flushed == UCS_INPROGRESS) ++all_issued.open_operations;
  if (flushed != UCS_OK && flushed != UCS_INPROGRESS) return link_failure(with, flushed);
  const auto confirmed = with.link->confirm(&all_issued);
  if (confirmed == UCS_INPROGRESS) ++all_issued.open_operations;
  if (confirmed != UCS_OK && confirmed != UCS_INPROGRESS) return link_failure(with, confirmed);
  if (all_issued.open_operations == 0) finish_done(all_issued);
  return std::nullopt;
}

// --- endings
// --------------------------------------------------------------------------------------------------------

void ucx_engine::break_link(peer& of, const failure& why) {
  std::erase(greeting_, &of);
  of.state = peer::link_state::none;
  if (of.link == nullptr) return;
  closing_link closing{std::move(of.link), std::exchange(of.active, {}),
                       std::chrono::steady_clock::now() + closing_limit};
  of.issuing.clear();
  of.in_flight_bytes = 0;
  for (transfer* victim : closing.victims) {
    victim->become(transfer_state::aborting);
    victim->target = nullptr;
    if (!victim->failed) victim->failed = why;
    if (victim->timer) deadlines_.erase(*victim->timer);
    victim->timer.reset();
  }
  closing.link->set_owner(nullptr);
  closing.link->close();  // reports the link, so that settle() comes to its victims
  closing_.push_back(std::move(closing));
  if (!of.waiting.empty()) make_runnable(of);
}

void ucx_engine::fail_all(peer& of, const failure& why) {
  for (transfer* waiting : std::exchange(of.waiting, {})) finish_failed(*waiting, why);
  break_link(of, why);
}

void ucx_engine::finish(transfer& which, result<transfer_report> outcome) {
  if (which.timer) deadlines_.erase(*which.timer);
  if (peer* with = which.target) {
    if (which.state() == transfer_state::waiting) {
      std::erase(with->waiting, &which);
    } else {
      std::erase(with->active, &which);
      std::erase(with->issuing, &which);
      with->in_flight_bytes -= which.bytes;
      if (!with->waiting.empty()) make_runnable(*with);
    }
  }
  which.become(transfer_state::finished);
  const auto done = std::move(which.done);
  transfers_.erase(which.self);
  transfers_count_.fetch_add(1, std::memory_order_relaxed);
  queue_.completed();
  done(std::move(outcome));
}

void ucx_engine::finish_done(transfer& which) {
  auto& total = which.direction == transfer_direction::put ? put_bytes_ : get_bytes_;
  total.fetch_add(which.bytes, std::memory_order_relaxed);
  finish(which, transfer_report{which.bytes, std::chrono::steady_clock::now() - which.submitted});
}

void ucx_engine::finish_failed(transfer& which, failure why) {
  failures_count_.fetch_add(1, std::memory_order_relaxed);
  finish(which, std::move(why));
}

// --------------------------------------------------------------------------------------------------------------------

result<std::unique_ptr<transfer_engine>> transfer_engine::start(const engine_options& options) {
  try {
    auto worker = ucx_worker::create(options);
    if (!worker) return worker.error();
    auto engine = std::make_unique<ucx_engine>(options, std::move(*worker));
    if (auto failed = engine->start_thread()) return std::move(*failed);
    return std::unique_ptr<transfer_engine>(std::move(engine));
  } catch (const std::system_error& why) {  // no thread, or no entropy
    return core::failure<errc>{errc::setup_failed, why.what()};
  }
}

}  // namespace yolk::transport
