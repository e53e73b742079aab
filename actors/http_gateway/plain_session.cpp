#include "actors/http_gateway/plain_session.hpp"

#include <caf/all.hpp>
#include <string>
#include <utility>
#include <variant>

#include "actors/http_gateway/answer_writer.hpp"
#include "actors/http_gateway/generation_plan.hpp"
#include "http/message_parser.hpp"

namespace yolk::actors {

namespace schema = messages::schema;

namespace {

constexpr std::size_t heavy_body_bytes = std::size_t{256} << 10;

struct plain_state {
  std::shared_ptr<const session_context> context;
  plain_session_origin origin;
  heavy_job_ptr job;
};
using self_pointer = plain_session_actor::stateful_pointer<plain_state>;

std::string json_answer(const session_context& context, std::variant<std::string, http::api_error> body,
                        bool keep_alive) {
  if (const auto* error = std::get_if<http::api_error>(&body))
    return format_error(*error, context.extra_headers, keep_alive);
  return http::format_response({.headers = context.extra_headers, .keep_alive = keep_alive},
                               std::get<0>(body));
}

std::string answer(const session_context& context, const plain_session_origin& origin,
                   const messages::http_request& request) {
  const auto view = request.read();
  const std::string_view body(view->getBody().asChars().begin(), view->getBody().size());
  const bool keep_alive = view->getKeepAlive();
  switch (origin.where) {
    case route::tokenize:
      return json_answer(context, tokenize(context, body), keep_alive);
    case route::detokenize:
      return json_answer(context, detokenize(context, body), keep_alive);
    case route::cluster:
      return json_answer(context, cluster_answer(context, origin.health), keep_alive);
    default:
      return http::format_response({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                                    .headers = context.extra_headers,
                                    .keep_alive = keep_alive},
                                   context.environment.recorder->expose());
  }
}

void finish(self_pointer self, const messages::http_request& request, const std::string& bytes) {
  const auto view = request.read();
  const auto words = static_cast<unsigned>(bytes.size() / sizeof(capnp::word) + 16);
  self->send(self->state.origin.broker,
             messages::http_output::build(
                 [&](schema::HttpOutput::Builder builder) {
                   builder.setConnection(view->getConnection());
                   builder.setBytes({reinterpret_cast<const capnp::byte*>(bytes.data()), bytes.size()});
                   builder.setLast(true);
                   builder.setClose(!view->getKeepAlive());
                 },
                 words));
  self->quit();
}

void answer_elsewhere(self_pointer self, const messages::http_request& request) {
  auto bytes = std::make_shared<std::string>();
  auto job = std::make_shared<heavy_job>();
  job->work = [context = self->state.context, origin = self->state.origin, request, bytes] {
    *bytes = answer(*context, origin, request);
  };
  self->state.job = job;
  self->request(self->state.context->heavy_lane, caf::infinite, job)
      .then([self, request, bytes](const heavy_job_ptr& done) {
        done->work = nullptr;
        // Without an answer the broker finds a session that ended too early, and answers 500.
        if (!done->done) return self->quit(caf::sec::runtime_error);
        finish(self, request, *bytes);
      });
}

plain_session_actor::behavior_type plain_session(self_pointer self,
                                                 std::shared_ptr<const session_context> context,
                                                 plain_session_origin origin) {
  self->state.context = std::move(context);
  self->state.origin = std::move(origin);
  return {[self](const messages::http_request& request) {
            if (request.byte_count() > heavy_body_bytes) return answer_elsewhere(self, request);
            finish(self, request, answer(*self->state.context, self->state.origin, request));
          },
          [self](const messages::http_gone&) {
            if (self->state.job) self->state.job->abandoned = true;
            self->quit();
          }};
}

}  // namespace

plain_session_actor spawn_plain_session(caf::actor_system& system,
                                        std::shared_ptr<const session_context> context,
                                        plain_session_origin origin) {
  return system.spawn(plain_session, std::move(context), std::move(origin));
}

}  // namespace yolk::actors
