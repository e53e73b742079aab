#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "actors/http_gateway/descriptor_room.hpp"
#include "tests/actors/gateway/gateway_client.hpp"
#include "tests/actors/gateway/gateway_fixture.hpp"

// What the gateway does on its sockets: HTTP, limits, and the answers that need no worker.
using namespace yolk;
using namespace yolk::tests;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view completions_path = "/v1/completions";
constexpr std::string_view chat_path = "/v1/chat/completions";
const std::string small_body = R"({"prompt":"x"})";

std::string text_of(int count, std::string_view part) {
  std::string text;
  while (count-- > 0) text += part;
  return text;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

http_answer get(const gateway_fixture& gateway, std::string_view path, std::string_view headers = {}) {
  gateway_client client(gateway.port());
  client.get(path, headers);
  return client.answer();
}

http_answer post(const gateway_fixture& gateway, std::string_view path, std::string_view body,
                 std::string_view headers = {}) {
  gateway_client client(gateway.port());
  client.post(path, body, headers);
  return client.answer();
}

}  // namespace

TEST_CASE("bad fields are refused with their name, and nothing else is disturbed") {
  gateway_fixture gateway;
  gateway_client bystander(gateway.port());
  bystander.post(completions_path, small_body);
  const seen_request request = gateway.next_request(peer::admission);
  struct bad {
    std::string_view path, body, field;
  };
  const bad cases[] = {
      {completions_path, R"({"prompt":"x","temperature":NaN})", ""},
      {completions_path, R"({"prompt":"x","temperature":1e999})", ""},
      {completions_path, R"({"prompt":"x","top_k":1.5})", "top_k"},
      {completions_path, R"({"prompt":"x","max_tokens":0})", "max_tokens"},
      {completions_path, R"({"prompt":"x","max_tokens":-1})", "max_tokens"},
      {completions_path, R"({"prompt":""})", "prompt"},
      {completions_path, R"({"prompt":[]})", "prompt"},
      {completions_path, R"({"prompt":[1,259]})", "prompt"},
      {completions_path, R"({"prompt":"x","logit_bias":{"259":1}})", "logit_bias"},
      {completions_path, R"({"prompt":"x","stop_token_ids":[400]})", "stop_token_ids"},
      {completions_path, R"({"prompt":"x","min_tokens":17})", "min_tokens"},
      {completions_path, R"({)", ""},
      {completions_path, "", ""},
      {chat_path, R"({"messages":[]})", "messages"},
      {"/detokenize", R"({"tokens":[259]})", "tokens"},
  };
  for (const bad& each : cases) {
    CAPTURE(each.body);
    const http_answer answer = post(gateway, each.path, each.body);
    CHECK(answer.status == 400);
    CHECK(field_of(answer.body, "type") == "invalid_request_error");
    if (!each.field.empty()) CHECK(contains(answer.body, each.field));
  }
  gateway.send_tokens(request, {.tokens = ids_of("fine"), .end = finish::length});
  CHECK(field_of(bystander.answer().body, "text") == "fine");
  CHECK(gateway.nothing_requested(peer::admission));
}

TEST_CASE("what does not fit into the context is refused with both numbers") {
  gateway_fixture gateway;
  http_answer answer = post(gateway, completions_path, R"({"prompt":")" + std::string(200, 'x') + "\"}");
  CHECK(answer.status == 400);
  CHECK(field_of(answer.body, "code") == "context_length_exceeded");
  CHECK(contains(answer.body, "maximum context length is 200 tokens"));
  CHECK(contains(answer.body, "has 200 tokens"));
  answer =
      post(gateway, completions_path, R"({"prompt":")" + std::string(150, 'x') + R"(","max_tokens":51})");
  CHECK(answer.status == 400);
  CHECK(field_of(answer.body, "code") == "context_length_exceeded");
  CHECK(contains(answer.body, "201 tokens"));
  // A prompt that leaves one token is served; the default takes what there is.
  gateway_client client(gateway.port());
  client.post(completions_path, R"({"prompt":")" + std::string(199, 'x') + "\"}");
  CHECK(gateway.next_request(peer::admission).sampling.max_tokens == 1);
}

TEST_CASE("add_special_tokens decides on the tokens that a model's texts begin with") {
  gateway_fixture_options options;
  options.begins_with_start = true;
  gateway_fixture gateway(options);
  const auto tokens_for = [&](const std::string& fields) {
    gateway_client client(gateway.port());
    client.post(completions_path, "{" + fields + "}");
    return gateway.next_request(peer::admission).tokens;
  };
  const std::vector<core::token_id> with = {start_token, 'A', 'B'};
  const std::vector<core::token_id> without = {'A', 'B'};
  CHECK(tokens_for(R"("prompt":"AB")") == with);
  CHECK(tokens_for(R"("prompt":"AB","add_special_tokens":true)") == with);
  CHECK(tokens_for(R"("prompt":"AB","add_special_tokens":false)") == without);
  CHECK(tokens_for(R"("prompt":[65,66],"add_special_tokens":true)") == without);
}

TEST_CASE("a model that has no chat template says so") {
  gateway_fixture_options options;
  options.with_chat = false;
  gateway_fixture gateway(options);
  const http_answer answer = post(gateway, chat_path, R"({"messages":[{"role":"user","content":"hi"}]})");
  CHECK(answer.status == 400);
  CHECK(contains(answer.body, "it has no template. Use /v1/completions."));
}

TEST_CASE("unknown models and paths are 404, wrong methods 405 with Allow") {
  gateway_fixture gateway;
  http_answer answer = post(gateway, completions_path, R"({"prompt":"x","model":"gpt-9"})");
  CHECK(answer.status == 404);
  CHECK(field_of(answer.body, "code") == "model_not_found");
  answer = post(gateway, completions_path, R"({"prompt":"x","model":"m)" + text_of(40, "\xC3\xA9") + "\"}");
  CHECK(answer.status == 404);
  CHECK(contains(answer.body,
                 "'m" + text_of(31, "\xC3\xA9") + "...'"));  // no more than 64 bytes, no half letter
  CHECK(get(gateway, "/v1/models/gpt-9").status == 404);
  CHECK(get(gateway, "/nothing").status == 404);
  answer = get(gateway, completions_path);
  CHECK(answer.status == 405);
  CHECK(answer.allow == "POST, OPTIONS");
  CHECK(post(gateway, "/health", "").status == 405);
}

TEST_CASE("models, version, page and tokenizer answer without a worker") {
  gateway_fixture gateway;
  CHECK(contains(get(gateway, "/v1/models").body, R"("max_model_len":200)"));
  CHECK(field_of(get(gateway, "/v1/models/fake").body, "id") == "fake");
  CHECK_FALSE(field_of(get(gateway, "/version").body, "version").empty());
  const http_answer page = get(gateway, "/");
  CHECK(page.status == 200);
  CHECK(page.content_type.starts_with("text/html"));
  CHECK(contains(post(gateway, "/tokenize", R"({"prompt":"AB"})").body, "[65,66]"));
  CHECK(contains(post(gateway, "/detokenize", R"({"tokens":[65,66]})").body, "\"AB\""));
  const http_answer metrics = get(gateway, "/metrics");
  CHECK(metrics.content_type.starts_with("text/plain"));
  CHECK(contains(metrics.body, "yolk_requests_total"));
  gateway.report_health(true);
  const http_answer cluster = get(gateway, "/cluster");
  CHECK(cluster.status == 200);
  CHECK(contains(cluster.body, "decode_worker 0"));
}

TEST_CASE("the cluster's picture says all of the device once, and its kind beside each worker") {
  gateway_fixture_options options;
  options.gateway.device = "host: wide vectors, 2 threads";
  gateway_fixture gateway(options);
  gateway.report_health(true);
  const http_answer cluster = get(gateway, "/cluster");
  CHECK(all_of_field(cluster.body, "device") == "host: wide vectors, 2 threadshost");
}

TEST_CASE("HEAD has the headers of GET and no body") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.send("HEAD /version HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/models/fake HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string both = client.raw_until("\"fake\"");
  CHECK(contains(both, "Content-Length: "));
  CHECK(contains(both, "\r\n\r\nHTTP/1.1 200"));
}

TEST_CASE("health is the supervisor's last word, and its silence is ill health") {
  gateway_fixture gateway;
  CHECK(get(gateway, "/health").status == 503);
  gateway.report_health(true);
  CHECK(get(gateway, "/health").status == 200);
  gateway.turn_clock(4900ms);
  CHECK(get(gateway, "/health").status == 200);
  gateway.turn_clock(200ms);
  CHECK(get(gateway, "/health").status == 503);
  gateway.report_health(false, "decode_worker 1 does not move");
  const http_answer answer = get(gateway, "/health");
  CHECK(answer.status == 503);
  CHECK(contains(answer.body, "decode_worker 1 does not move"));
}

TEST_CASE("API keys are asked for where the model is reached, and only there") {
  gateway_fixture_options options;
  options.gateway.api_keys = {{"sk-right", "tenant"}};
  gateway_fixture gateway(options);
  for (const std::string_view header :
       {"", "Authorization: Bearer sk-wrong\r\n", "Authorization: Bearer sk-righ\r\n",
        "Authorization: Bearer \r\n", "Authorization: sk-right\r\n", "Authorization: Basic sk-right\r\n"}) {
    CAPTURE(header);
    const http_answer answer = post(gateway, completions_path, small_body, header);
    CHECK(answer.status == 401);
    CHECK(field_of(answer.body, "code") == "invalid_api_key");
    CHECK(get(gateway, "/v1/models", header).status == 401);
  }
  CHECK(get(gateway, "/v1/models", "Authorization: Bearer sk-right\r\n").status == 200);
  CHECK(get(gateway, "/version").status == 200);
  CHECK(get(gateway, "/metrics").status == 200);
  gateway_client client(gateway.port());
  client.post(completions_path, small_body, "authorization: bearer sk-right\r\n");
  gateway.next_request(peer::admission);
}

TEST_CASE("browsers of other origins are let in only where the operator said so") {
  const std::string preflight = "OPTIONS /v1/completions HTTP/1.1\r\nHost: x\r\nOrigin: http://a\r\n\r\n";
  {
    gateway_fixture gateway;
    gateway_client client(gateway.port());
    client.send(preflight);
    CHECK_FALSE(contains(client.raw_until("\r\n\r\n"), "Access-Control"));
  }
  gateway_fixture_options options;
  options.gateway.cors_origin = "http://a";
  gateway_fixture gateway(options);
  gateway_client client(gateway.port());
  client.send(preflight);
  const std::string answer = client.raw_until("\r\n\r\n");
  CHECK(contains(answer, "HTTP/1.1 204"));
  CHECK(contains(answer, "Access-Control-Allow-Origin: http://a"));
  CHECK(contains(answer, "Access-Control-Allow-Headers"));
}

TEST_CASE("pipelined requests are answered in their order") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, R"({"prompt":"first"})");
  client.get("/version");
  client.post(completions_path, R"({"prompt":"second","stream":true})");
  client.get("/v1/models");
  const seen_request first = gateway.next_request(peer::admission);
  CHECK(first.tokens == ids_of("first"));
  gateway.send_tokens(first, {.tokens = ids_of("one"), .end = finish::length});
  CHECK(field_of(client.answer().body, "text") == "one");
  CHECK_FALSE(field_of(client.answer().body, "version").empty());
  gateway.send_tokens(gateway.next_request(peer::admission),
                      {.tokens = ids_of("two"), .end = finish::length});
  CHECK(all_of_field(client.answer().body, "text") == "two");
  CHECK(contains(client.answer().body, "\"list\""));
}

TEST_CASE("a connection whose queue is full is not read, and is read again when there is room") {
  gateway_fixture_options options;
  options.gateway.max_requests_per_connection_queue = 3;
  gateway_fixture gateway(options);
  gateway_client client(gateway.port());
  client.post(completions_path, small_body);
  const seen_request request = gateway.next_request(peer::admission);
  // More than fits into the queue and one read, in several goes.
  constexpr int count = 2000;
  for (int i = 0; i < count; ++i) client.get("/version");
  gateway.running();
  gateway.send_tokens(request, {.tokens = ids_of("a"), .end = finish::length});
  CHECK(client.answer().status == 200);
  int answered = 0;
  for (; answered < count; ++answered)
    if (client.answer().status != 200) break;
  CHECK(answered == count);
}

TEST_CASE("a client that leaves while its connection is not read is noticed") {
  gateway_fixture_options options;
  options.gateway.max_requests_per_connection_queue = 2;
  gateway_fixture gateway(options);
  gateway_client client(gateway.port());
  client.post(completions_path, small_body);
  const seen_request request = gateway.next_request(peer::admission);
  for (int i = 0; i < 100; ++i) client.get("/version");
  client.close();
  CHECK(gateway.next_end(peer::conductor).cancel);
}

TEST_CASE("a half-closed connection is a client that left") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, small_body);
  const seen_request request = gateway.next_request(peer::admission);
  client.shut_writing();
  const seen_end end = gateway.next_end(peer::conductor);
  CHECK(end.leg == request.leg);
  CHECK(end.cancel);
}

TEST_CASE("a reader that does not read is dropped, and stalls nobody") {
  gateway_fixture_options options;
  options.gateway.max_output_bytes = 64 << 10;
  options.context_length = 100'000'000;
  gateway_fixture gateway(options);
  gateway_client slow(gateway.port(), 4096);
  slow.post(completions_path, R"({"prompt":"s","stream":true,"max_tokens":50000000})");
  const seen_request request = gateway.next_request(peer::admission);
  gateway_client quick(gateway.port());
  quick.post(completions_path, R"({"prompt":"q","stream":true})");
  const seen_request other = gateway.next_request(peer::admission);
  constexpr std::uint32_t size = 16 << 10;
  const std::vector<core::token_id> tokens(size, 'x');
  // The system's own buffers take some megabytes first.
  for (std::uint32_t i = 0; i < 1000; ++i)
    gateway.send_tokens(request, {.first_index = i * size, .tokens = tokens});
  const seen_end end = gateway.next_end(peer::conductor);
  CHECK(end.leg == request.leg);
  CHECK(end.cancel);
  CHECK(gateway.running() == 1);
  gateway.send_tokens(other, {.tokens = ids_of("quick"), .end = finish::length});
  CHECK(all_of_field(quick.answer().body, "text") == "quick");
}

TEST_CASE("one large answer to a slow reader is not too much") {
  gateway_fixture_options options;
  options.gateway.max_output_bytes = 64 << 10;
  gateway_fixture gateway(options);
  gateway_client client(gateway.port(), 4096);
  client.post("/tokenize", R"({"prompt":")" + std::string(2 << 20, 'x') + "\"}");
  client.get("/version");
  CHECK(client.answer().body.size() > (4 << 20));
  CHECK_FALSE(field_of(client.answer().body, "version").empty());
}

TEST_CASE("answers that wait for their readers have a limit over all connections") {
  gateway_fixture_options options;
  options.gateway.max_unsent_bytes = 1 << 20;
  gateway_fixture gateway(options);
  gateway_client client(gateway.port());
  client.post("/tokenize", R"({"prompt":")" + std::string(1 << 20, 'x') + "\"}");
  CHECK(client.closed_by_server());
  CHECK(get(gateway, "/version").status == 200);
}

TEST_CASE("a large body is read, planned and answered") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  const std::string padding(std::size_t{8} << 20, 'p');
  client.post(completions_path, R"({"prompt":"x","unknown":")" + padding + "\"}");
  gateway.send_tokens(gateway.next_request(peer::admission), {.tokens = ids_of("ok"), .end = finish::length});
  CHECK(field_of(client.answer().body, "text") == "ok");
  client.post(completions_path, R"({"prompt":"POISON","unknown":")" + padding + "\"}");
  CHECK(client.answer().status == 500);
  client.post(completions_path, R"({"prompt":")" + padding + "\"}");
  CHECK(field_of(client.answer().body, "code") == "context_length_exceeded");
}

TEST_CASE(
    "more than the body's limit is a 413, more than the headers' a 431, nonsense a 400; then it closes") {
  gateway_fixture gateway;
  struct bad {
    std::string bytes;
    int status;
  };
  const bad cases[] = {
      {"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", 413},
      {"GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(40'000, 'h') + "\r\n\r\n", 431},
      {"\x16\x03\x01 no HTTP\r\n\r\n", 400},
  };
  for (const bad& each : cases) {
    gateway_client client(gateway.port());
    // The answer to the request before comes first.
    client.get("/version");
    client.try_send(each.bytes);
    CHECK(client.answer().status == 200);
    const http_answer answer = client.answer();
    CHECK(answer.status == each.status);
    CHECK(answer.connection == "close");
    CHECK(contains(answer.body, "\"error\""));
    CHECK(client.closed_by_server());
  }
}

TEST_CASE("a client that waits for 100 Continue gets it when it is its turn") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, small_body);
  const seen_request request = gateway.next_request(peer::admission);
  client.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\nExpect: 100-continue\r\n\r\n");
  gateway.running();
  gateway.send_tokens(request, {.tokens = ids_of("a"), .end = finish::length});
  CHECK(field_of(client.answer().body, "text") == "a");
  CHECK(contains(client.raw_until("\r\n\r\n"), "HTTP/1.1 100 Continue"));
  client.send(R"({"prompt":"A"})");
  CHECK(contains(client.raw_until("[65]"), "HTTP/1.1 200"));
}

TEST_CASE("a request that does not become complete is a 408; idle connections are closed") {
  gateway_fixture gateway;
  gateway_client stalled(gateway.port());
  stalled.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{");
  gateway_client silent(gateway.port());
  gateway_client idle(gateway.port());
  idle.get("/version");
  CHECK(idle.answer().status == 200);
  gateway_client busy(gateway.port());
  busy.post(completions_path, small_body);
  const seen_request request = gateway.next_request(peer::admission);
  gateway.turn_clock(61s);
  CHECK(stalled.answer().status == 408);
  CHECK(stalled.closed_by_server());
  CHECK(silent.closed_by_server());
  idle.get("/version");
  CHECK(idle.answer().status == 200);
  gateway.turn_clock(5min + 1s);
  CHECK(idle.closed_by_server());
  // A request that is being answered has all the time it needs.
  gateway.send_tokens(request, {.tokens = ids_of("late"), .end = finish::length});
  CHECK(field_of(busy.answer().body, "text") == "late");
}

TEST_CASE("more connections than the limit are told so and closed; one that goes makes room") {
  gateway_fixture_options options;
  options.gateway.max_connections = 2;
  gateway_fixture gateway(options);
  gateway_client first(gateway.port());
  first.get("/version");
  CHECK(first.answer().status == 200);
  gateway_client second(gateway.port());
  second.get("/version");
  CHECK(second.answer().status == 200);
  gateway_client third(gateway.port());
  const http_answer refused = third.answer();
  CHECK(refused.status == 503);
  CHECK(refused.retry_after == "1");
  CHECK(third.closed_by_server());
  third.close();
  second.close();
  for (int i = 0; i < 10'000; ++i) {
    gateway_client again(gateway.port());
    try {
      again.get("/version");
      if (again.answer().status == 200) return;
    } catch (const std::runtime_error&) {
      // Refused before the request was read.
    }
  }
  FAIL("the closed connection did not make room");
}

TEST_CASE("bodies that are held have a limit over all connections") {
  gateway_fixture_options options;
  options.gateway.max_input_bytes = 200'000;
  gateway_fixture gateway(options);
  const std::string part = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n" +
                           std::string(150'000, ' ');
  gateway_client first(gateway.port());
  first.send(part);
  gateway_client second(gateway.port());
  second.try_send(part);
  // Which of the two comes too late is up to the scheduler of the system; small requests pass all the time.
  CHECK(get(gateway, "/version").status == 200);
  first.try_send(std::string(60'000, ' '));
  second.try_send(std::string(60'000, ' '));
  gateway_client third(gateway.port());
  third.try_send(part);
  third.try_send(std::string(60'000, ' '));
  CHECK(third.answer().status == 503);
}

TEST_CASE("an HTTP/1.0 client gets a stream without chunks, ended by the connection's end") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  const std::string body = R"({"prompt":"x","stream":true})";
  client.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body);
  gateway.send_tokens(gateway.next_request(peer::admission),
                      {.tokens = ids_of("abc"), .end = finish::length});
  const std::string raw = client.raw_until("[DONE]\n\n");
  CHECK_FALSE(contains(raw, "chunked"));
  CHECK(contains(raw, "\r\n\r\ndata: {"));
  CHECK(client.closed_by_server());
}

TEST_CASE("draining finishes what runs, takes nothing new, and says when it is done") {
  gateway_fixture gateway;
  gateway_client idle(gateway.port());
  idle.get("/version");
  idle.answer();
  gateway_client client(gateway.port());
  client.post(completions_path, R"({"prompt":"x","stream":true})");
  const seen_request request = gateway.next_request(peer::admission);
  gateway.send_tokens(request, {.tokens = ids_of("abc")});
  client.read_until("abc");
  gateway.start_draining();
  CHECK(idle.closed_by_server());
  CHECK(gateway.running() == 1);
  gateway.send_tokens(request, {.first_index = 3, .tokens = ids_of("d"), .end = finish::length});
  CHECK(all_of_field(client.answer().body, "text") == "abcd");
  CHECK(client.closed_by_server());
  gateway.wait_drained();
  const auto come_late = [&] {
    gateway_client late(gateway.port());
    late.get("/version");
    late.answer();
  };
  CHECK_THROWS(come_late());
}

TEST_CASE("at the end of the drain a stream ends with an error event, and who has nothing yet gets a 503") {
  gateway_fixture gateway;
  gateway_client streaming(gateway.port());
  streaming.post(completions_path, R"({"prompt":"x","stream":true})");
  const seen_request streamed = gateway.next_request(peer::admission);
  gateway.send_tokens(streamed, {.tokens = ids_of("abc")});
  streaming.read_until("abc");
  gateway_client waiting(gateway.port());
  waiting.post(completions_path, R"({"prompt":"y"})");
  const seen_request waited = gateway.next_request(peer::admission);
  gateway.start_draining();
  CHECK(gateway.running() == 2);
  gateway.shut_down();
  const std::string body = streaming.answer().body;  // to the last chunk
  CHECK(contains(body, "abc"));
  CHECK(contains(body, "shutting_down"));
  CHECK(contains(body, "[DONE]"));
  CHECK(streaming.closed_by_server());
  const auto refused = waiting.answer();
  CHECK(refused.status == 503);
  CHECK(contains(refused.body, "shutting_down"));
  CHECK(waiting.closed_by_server());
  for (int i = 0; i < 2; ++i) CHECK(gateway.next_end(peer::admission).cancel);
}

TEST_CASE("a port that is taken is an error that says so") {
  gateway_fixture gateway;
  gateway_fixture_options options;
  options.gateway.port = gateway.port();
  const auto start_second = [&] { gateway_fixture second(options); };
  CHECK_THROWS_WITH_AS(start_second(), doctest::Contains("cannot listen on 127.0.0.1"), std::runtime_error);
}

TEST_CASE("clients leave the process the descriptors that it needs, whatever the limit") {
  using actors::descriptor_room;
  using actors::room_at;
  for (const std::uint64_t limit : {128u, 1024u, 4096u, 1u << 20}) {
    CAPTURE(limit);
    const auto rooms = [&](descriptor_room which) {
      std::uint64_t count = 0;
      for (std::uint64_t socket = 0; socket < limit; ++socket)
        count += room_at(static_cast<int>(socket), limit) == which ? 1 : 0;
      return count;
    };
    CHECK(rooms(descriptor_room::none) >= 24);
    CHECK(rooms(descriptor_room::little) >= 4);
    CHECK(rooms(descriptor_room::enough) >= limit / 2);
    CHECK(room_at(static_cast<int>(limit) - 1, limit) == descriptor_room::none);
    CHECK(room_at(0, limit) == descriptor_room::enough);
  }
  CHECK(room_at(1 << 20, std::numeric_limits<std::uint64_t>::max()) == descriptor_room::enough);
  CHECK(room_at(5, 5) == descriptor_room::none);
}

TEST_CASE("the URL of a gateway can be called from its own machine, with brackets where IPv6 has them") {
  CHECK(actors::local_url("127.0.0.1", 80) == "http://127.0.0.1:80");
  CHECK(actors::local_url("0.0.0.0", 80) == "http://127.0.0.1:80");
  CHECK(actors::local_url("::", 80) == "http://[::1]:80");
  CHECK(actors::local_url("fd00::2", 8000) == "http://[fd00::2]:8000");
  CHECK(actors::local_url("localhost", 8000) == "http://localhost:8000");
}
