#include "actors/http_gateway/generation.hpp"

#include <algorithm>
#include <utility>

namespace yolk::actors {

namespace schema = messages::schema;

namespace {

choice_options options_of(const session_context& context, const generation_plan& plan, std::uint32_t index) {
  const http::generation_request& request = plan.request;
  const std::uint32_t prompt = index / request.n;
  return {.index = index,
          .prompt = prompt,
          // Each choice draws from its own seed, so that they differ, and so that each can be had again.
          .seed = request.sampling.seed + index % request.n,
          .max_tokens = plan.prompts[prompt].max_tokens,
          .include_stop = request.include_stop_str_in_output,
          .skip_special_tokens = request.skip_special_tokens,
          .logprobs = request.sampling.logprobs,
          .stop = request.stop,
          .end_tokens = context.environment.model->config.end_tokens,
          .stop_token_ids = request.sampling.stop_token_ids};
}

http::api_error unavailable(std::string message) {
  return {.status = 503,
          .message = std::move(message),
          .type = "service_unavailable",
          .code = "unavailable",
          .retry_after_seconds = 1};
}

}  // namespace

generation::generation(const session_context& context, generation_plan plan, std::uint64_t request)
    : context_(context), plan_(std::move(plan)), request_(request) {
  const std::uint32_t n = plan_.request.n;
  const auto prompt_count = static_cast<std::uint32_t>(plan_.prompts.size());
  for (std::uint32_t index = 0; index < plan_.choice_count(); ++index)
    choices_.emplace_back(options_of(context_, plan_, index), context_.environment.model->tokens);
  faults_.resize(choices_.size());
  prompt_answered_.resize(prompt_count);
  for (std::uint32_t prompt = 0; prompt < prompt_count; ++prompt)
    add_leg({.header = {context_.next_number(), request_, 0},
             .prompt = prompt,
             .first_choice = prompt * n,
             .choice_count = n});
}

void generation::add_leg(leg fresh) {
  legs_.emplace(fresh.header.leg, fresh);
}

std::optional<generation::arrival> generation::accept(const messages::token_batch& batch,
                                                      core::time_point now) {
  const auto view = batch.read();
  const leg_header header = header_of(view->getHeader());
  const auto found = legs_.find(header.leg);
  if (found == legs_.end() || found->second.state != leg_state::placed) return std::nullopt;
  leg& from = found->second;
  const std::uint32_t index = view->getChoice();
  if (header.attempt != from.header.attempt || index < from.first_choice ||
      index - from.first_choice >= from.choice_count)
    return std::nullopt;
  choice& target = choices_[index];
  const bool was_finished = target.finished();
  const std::size_t count = target.accept(batch);
  if (count == 0 && target.finished() == was_finished) {
    if (!target.lost_tokens()) return std::nullopt;
    return arrival{.choice = index, .tokens_lost = true};
  }
  from.heard = now;
  from.answered = true;
  arrival what{.choice = index, .token_count = count};
  if (!prompt_answered_[from.prompt]) {
    // Only the first try's hits count: a later one finds what the first one computed.
    prompt_answered_[from.prompt] = true;
    what.first_of_prompt = true;
    what.prompt_tokens = plan_.prompts[from.prompt].tokens.size();
    what.cached_tokens = std::min<std::uint64_t>(view->getCachedTokens(), what.prompt_tokens);
    cached_tokens_ += what.cached_tokens;
  }
  return what;
}

generation::verdict generation::failed(const messages::leg_failed& failure) {
  using reason = schema::LegFailed::Reason;
  const auto view = failure.read();
  const leg_header header = header_of(view->getHeader());
  const auto found = legs_.find(header.leg);
  if (found == legs_.end() || found->second.state == leg_state::ended ||
      header.attempt != found->second.header.attempt || complete(found->second))
    return {};
  std::string message(view->getMessage().cStr(), view->getMessage().size());
  switch (view->getReason()) {
    case reason::REFUSED:
      if (message.empty()) message = "The server is overloaded. Please try again later.";
      return {.give_up =
                  http::api_error{.status = 429,
                                  .message = std::move(message),
                                  .type = "rate_limit_error",
                                  .code = "overloaded",
                                  .retry_after_seconds = std::max(1, int(view->getRetryAfterSeconds()))}};
    case reason::PREEMPTED:
      try_again(found->second, true);
      return {.resumed = true};
    case reason::WORKER_LOST:
    case reason::TRANSFER_FAILED:
      return fault(header.leg, message);
    case reason::UNAVAILABLE:
      return {.give_up = unavailable(message.empty() ? "No worker is available." : std::move(message))};
    case reason::INTERNAL:
      break;
  }
  return {.give_up = http::api_error{.status = 500,
                                     .message = message.empty() ? "Internal error." : std::move(message),
                                     .type = "internal_error",
                                     .code = "internal_error"}};
}

generation::verdict generation::fault(std::uint64_t leg_id, std::string_view reason) {
  leg& old = legs_.at(leg_id);
  const auto end = old.first_choice + old.choice_count;
  for (std::uint32_t index = old.first_choice; index < end; ++index) {
    if (choices_[index].finished() || ++faults_[index] <= context_.options.max_attempts) continue;
    return {.give_up = unavailable("The request failed " + std::to_string(faults_[index]) +
                                   " times on the way (last: " + std::string(reason) +
                                   "). Please try again later.")};
  }
  try_again(old, true);
  return {.resumed = true};
}

void generation::replace(std::uint64_t leg_id, bool admitted) {
  called_back_.insert(leg_id);
  try_again(legs_.at(leg_id), admitted);
}

void generation::try_again(leg& old, bool admitted) {
  old.state = leg_state::ended;
  const leg before = old;
  const std::uint32_t attempt = before.header.attempt + 1;
  const auto end = before.first_choice + before.choice_count;
  bool any_generated = false;
  for (std::uint32_t index = before.first_choice; index < end; ++index) {
    choices_[index].forget_early();
    choices_[index].finish_if_complete();
    any_generated = any_generated || !choices_[index].generated().empty();
  }
  // Choices of one prompt have a leg each from now on: they are at different places.
  for (std::uint32_t index = before.first_choice; index < end; ++index)
    if (!choices_[index].finished())
      add_leg({.header = {context_.next_number(), request_, attempt},
               .prompt = before.prompt,
               .first_choice = index,
               .choice_count = 1,
               .admitted = admitted || any_generated});
}

messages::generate_request generation::request_of(const leg& which) const {
  const generation_plan::prompt& prompt = plan_.prompts[which.prompt];
  std::vector<core::token_id> tokens = prompt.tokens;
  std::vector<std::uint64_t> seeds;
  for (std::uint32_t i = 0; i < which.choice_count; ++i)
    seeds.push_back(choices_[which.first_choice + i].options().seed);
  if (which.choice_count == 1) {
    const auto generated = choices_[which.first_choice].generated();
    tokens.insert(tokens.end(), generated.begin(), generated.end());
  }
  core::sampling_params sampling = plan_.request.sampling;
  sampling.max_tokens = prompt.max_tokens;
  const auto words = static_cast<unsigned>(tokens.size() / 2 + 128);
  return messages::generate_request::build(
      [&](schema::GenerateRequest::Builder builder) {
        write(builder.initHeader(), which.header, context_.environment.incarnation);
        builder.setTokens(as_data(tokens));
        builder.setPromptLength(static_cast<std::uint32_t>(prompt.tokens.size()));
        write(builder.initSampling(), sampling, seeds);
        write(builder.initRoot(), plan_.root);
        builder.setFirstChoice(which.first_choice);
        builder.setChoiceCount(which.choice_count);
      },
      words);
}

bool generation::complete(const leg& which) const {
  const auto first = choices_.begin() + which.first_choice;
  return std::all_of(first, first + which.choice_count, [](const choice& each) { return each.finished(); });
}

bool generation::stopped_early(const leg& which) const {
  const auto first = choices_.begin() + which.first_choice;
  return std::any_of(first, first + which.choice_count,
                     [](const choice& each) { return each.stopped_by_text(); });
}

bool generation::waits_for_tokens(const leg& which) const {
  const auto first = choices_.begin() + which.first_choice;
  return std::any_of(first, first + which.choice_count,
                     [](const choice& each) { return each.waits_for_tokens(); });
}

bool generation::complete() const {
  return std::all_of(choices_.begin(), choices_.end(), [](const choice& each) { return each.finished(); });
}

http::usage generation::usage() const {
  http::usage counted{.prompt_tokens = plan_.prompt_tokens(), .cached_tokens = cached_tokens_};
  for (const choice& each : choices_) counted.completion_tokens += each.generated().size();
  return counted;
}

}  // namespace yolk::actors
