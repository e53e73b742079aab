#include <string>

#include "actors/http_gateway/answer_writer.hpp"
#include "actors/http_gateway/gateway_broker.hpp"
#include "http/generation_response.hpp"
#include "http/message_parser.hpp"
#include "http/web_page.hpp"

// The answers that the broker gives itself: short, and known without asking anyone.
namespace yolk::actors {

using namespace std::chrono_literals;

namespace {

/// The supervisor reports twice a second; silence of that length means that it hangs, or the process does.
constexpr auto health_timeout = 5s;

constexpr const char* endpoints_for_text =
    "It generates text: POST /v1/chat/completions or /v1/completions (no /v1/responses, no /v1/embeddings).";
constexpr const char* endpoints_for_monitoring =
    "It is for watching a node: GET /metrics, /health or /version; requests go to a gateway.";

http::model_card card_of(const session_context& context) {
  return {.id = context.environment.model->name,
          .created = context.started_seconds,
          .max_model_len = context.context_tokens};
}

http::api_error no_such_model(const session_context& context, std::string_view asked) {
  return {.status = 404,
          .message = "The model '" + std::string(asked) + "' does not exist; this server has '" +
                     context.environment.model->name + "'.",
          .param = "model",
          .code = "model_not_found"};
}

std::string options_answer(const session_context& context, const routed& found, bool keep_alive) {
  http::response_head head{.status = 204, .headers = context.extra_headers, .keep_alive = keep_alive};
  head.headers.emplace_back("Allow", found.allow);
  if (!context.options.cors_origin.empty()) {
    head.headers.emplace_back("Access-Control-Allow-Methods", found.allow);
    head.headers.emplace_back("Access-Control-Allow-Headers", "authorization, content-type");
    head.headers.emplace_back("Access-Control-Max-Age", "600");
  }
  return http::format_response(head, {});
}

}  // namespace

void gateway_state::answer_now(client_connection& client, const http::request_message& request,
                               const routed& found) {
  const session_context& context = *context_;
  const auto json = [&](std::string_view body) {
    write(client,
          http::format_response({.headers = context.extra_headers, .keep_alive = request.keep_alive}, body));
  };
  auto headers = context.extra_headers;
  switch (found.where) {
    case route::health:
      return answer_health(client, request.keep_alive);
    case route::page:
      headers.emplace_back("Content-Security-Policy",
                           "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'");
      headers.emplace_back("X-Content-Type-Options", "nosniff");
      headers.emplace_back("Referrer-Policy", "no-referrer");
      return write(client, http::format_response({.content_type = "text/html; charset=utf-8",
                                                  .headers = headers,
                                                  .keep_alive = request.keep_alive},
                                                 http::web_page()));
    case route::version:
      return json("{\"version\":" + http::quote(YOLK_VERSION) + "}");
    case route::models:
      return json(http::format_models({card_of(context)}));
    case route::model:
      if (found.argument == context.environment.model->name)
        return json(http::format_model(card_of(context)));
      return write(client, format_error(no_such_model(context, found.argument), headers, request.keep_alive));
    case route::options:
      return write(client, options_answer(context, found, request.keep_alive));
    case route::method_not_allowed:
      headers.emplace_back("Allow", found.allow);
      return write(client,
                   format_error({.status = 405,
                                 .message = "Method " + request.method + " is not allowed for " +
                                            request.path + "; allowed: " + std::string(found.allow) + ".",
                                 .code = "method_not_allowed"},
                                headers, request.keep_alive));
    default:
      return write(client,
                   format_error({.status = 404,
                                 .message = "This server has no " + request.path + ". " +
                                            (scope_ == gateway_scope::monitoring ? endpoints_for_monitoring
                                                                                 : endpoints_for_text),
                                 .code = "not_found"},
                                headers, request.keep_alive));
  }
}

void gateway_state::answer_health(client_connection& client, bool keep_alive) {
  std::string reason;
  if (health_.empty())
    reason = "starting: there has been no report yet";
  else if (now() - health_.back().first > health_timeout)
    reason = "the last report is more than 5 s old";
  else if (const auto report = health_.back().second.read(); !report->getHealthy())
    reason = report->getReason().size() > 0 ? report->getReason().cStr() : "no reason was given";
  const bool healthy = reason.empty();
  const std::string body = healthy ? std::string(R"({"status":"ok"})")
                                   : R"({"status":"unavailable","reason":)" + http::quote(reason) + "}";
  write(client,
        http::format_response(
            {.status = healthy ? 200 : 503, .headers = context_->extra_headers, .keep_alive = keep_alive},
            body));
}

}  // namespace yolk::actors
