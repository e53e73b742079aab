#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <string>

#include "tests/actors/gateway/gateway_client.hpp"
#include "tests/actors/gateway/gateway_fixture.hpp"

// What the gateway's sessions do with requests and tokens.
using namespace yolk;
using namespace yolk::tests;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view chat_path = "/v1/chat/completions";
constexpr std::string_view completions_path = "/v1/completions";

std::string chat_body(std::string_view extra = {}) {
  return R"({"model":"fake","messages":[{"role":"user","content":"hi"}])" + std::string(extra) + "}";
}

std::string prompt_body(std::string_view prompt, std::string_view extra = {}) {
  return R"({"model":"fake","prompt":")" + std::string(prompt) + "\"" + std::string(extra) + "}";
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE("a chat request reaches admission as the template's tokens and comes back as one answer") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(chat_path, chat_body(R"(,"seed":5,"max_tokens":10)"));
  const seen_request request = gateway.next_request(peer::admission);
  CHECK(request.tokens == ids_of("user:hi\nassistant:"));
  CHECK(request.prompt_length == request.tokens.size());
  CHECK(request.attempt == 0);
  CHECK(request.seeds == std::vector<std::uint64_t>{5});
  CHECK(request.sampling.max_tokens == 10);
  gateway.send_tokens(request, {.first_index = 0, .tokens = ids_of("He"), .cached_tokens = 3});
  gateway.send_tokens(request, {.first_index = 2, .tokens = ids_of("llo")});
  gateway.send_tokens(request, {.first_index = 5, .tokens = {end_token}, .end = finish::stop});
  const http_answer answer = client.answer();
  CHECK(answer.status == 200);
  CHECK(field_of(answer.body, "content") == "Hello");
  CHECK(field_of(answer.body, "finish_reason") == "stop");
  CHECK(field_of(answer.body, "model") == "fake");
  CHECK(contains(answer.body, R"("prompt_tokens":18)"));
  CHECK(contains(answer.body, R"("completion_tokens":6)"));
  CHECK(contains(answer.body, R"("cached_tokens":3)"));
  CHECK_FALSE(gateway.next_end(peer::admission).cancel);
  CHECK_FALSE(gateway.next_end(peer::conductor).cancel);
  CHECK(gateway.recorder().count().finished == 1);
  CHECK(gateway.recorder().count().cached_tokens == 3);
}

TEST_CASE("a stream is role, text, finish, usage and DONE") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(chat_path, chat_body(R"(,"stream":true,"stream_options":{"include_usage":true})"));
  const seen_request request = gateway.next_request(peer::admission);
  gateway.send_tokens(request, {.first_index = 0, .tokens = ids_of("A")});
  CHECK(all_of_field(client.read_until(R"("content":"A")"), "role") == "assistant");
  gateway.send_tokens(request, {.first_index = 1, .tokens = ids_of("B")});
  client.read_until(R"("content":"B")");
  gateway.send_tokens(request, {.first_index = 2, .tokens = ids_of("C"), .end = finish::length});
  const http_answer answer = client.answer();
  CHECK(answer.content_type.starts_with("text/event-stream"));
  const auto events = events_of(answer.body);
  REQUIRE(events.size() >= 5);
  CHECK(events.back() == "[DONE]");
  CHECK(contains(events[events.size() - 2], R"("choices":[])"));
  CHECK(contains(events[events.size() - 2], R"("completion_tokens":3)"));
  CHECK(all_of_field(answer.body, "content") == "ABC");
  CHECK(all_of_field(answer.body, "finish_reason") == "length");
}

TEST_CASE("a stop string over several tokens is not told, and ends the work") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, prompt_body("x", R"(,"stop":["END"],"stream":true)"));
  const seen_request request = gateway.next_request(peer::admission);
  gateway.send_tokens(request, {.first_index = 0, .tokens = ids_of("a E")});
  gateway.send_tokens(request, {.first_index = 3, .tokens = ids_of("N")});
  gateway.send_tokens(request, {.first_index = 4, .tokens = ids_of("D and more")});
  const http_answer answer = client.answer();
  CHECK(all_of_field(answer.body, "text") == "a ");
  CHECK(field_of(answer.body, "finish_reason") == "stop");
  CHECK(field_of(answer.body, "stop_reason") == "END");
  CHECK(gateway.next_end(peer::admission).cancel);
  CHECK(gateway.next_end(peer::conductor).cancel);
}

TEST_CASE("a character that is cut by tokens is sent whole, an incomplete last one as U+FFFD") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, prompt_body("x", R"(,"stream":true)"));
  const seen_request request = gateway.next_request(peer::admission);
  const auto euro = ids_of("\xE2\x82\xAC");
  gateway.send_tokens(request, {.first_index = 0, .tokens = {euro[0]}});
  gateway.send_tokens(request, {.first_index = 1, .tokens = {euro[1]}});
  gateway.send_tokens(request, {.first_index = 2, .tokens = {euro[2]}});
  gateway.send_tokens(request, {.first_index = 3, .tokens = {euro[0]}, .end = finish::length});
  CHECK(all_of_field(client.answer().body, "text") == "\xE2\x82\xAC\xEF\xBF\xBD");
}

TEST_CASE("choices have seeds of their own, and may end at different times") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, R"({"prompt":["p","q"],"n":2,"seed":40,"stop":["!"]})");
  const seen_request first = gateway.next_request(peer::admission);
  const seen_request second = gateway.next_request(peer::admission);
  CHECK(first.leg != second.leg);
  CHECK(first.request == second.request);
  CHECK(first.seeds == std::vector<std::uint64_t>{40, 41});
  CHECK(first.first_choice == 0);
  CHECK(second.first_choice == 2);
  CHECK(second.choice_count == 2);
  CHECK(second.tokens == ids_of("q"));
  gateway.send_tokens(first, {.choice = 0, .tokens = ids_of("a!"), .cached_tokens = 1});
  gateway.send_tokens(first, {.choice = 0, .first_index = 2, .tokens = ids_of("ignored")});
  gateway.send_tokens(first, {.choice = 1, .tokens = ids_of("b"), .end = finish::length});
  // The leg's choices are done, one of them by its text: the workers must be told.
  const seen_end end = gateway.next_end(peer::conductor);
  CHECK(end.leg == first.leg);
  CHECK(end.cancel);
  gateway.send_tokens(second,
                      {.choice = 3, .tokens = ids_of("d"), .end = finish::length, .cached_tokens = 1});
  gateway.send_tokens(second, {.choice = 2, .tokens = ids_of("c"), .end = finish::length});
  const http_answer answer = client.answer();
  CHECK(all_of_field(answer.body, "text") == "abcd");
  CHECK(contains(answer.body, R"("cached_tokens":2)"));
  CHECK(contains(answer.body, R"("prompt_tokens":2)"));
  CHECK(contains(answer.body, R"("completion_tokens":5)"));
}

TEST_CASE("echo gives the prompt back before what is generated") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, R"({"prompt":[72,105],"echo":true})");
  const seen_request request = gateway.next_request(peer::admission);
  CHECK(request.tokens == ids_of("Hi"));
  CHECK(request.sampling.max_tokens == 16);
  gateway.send_tokens(request, {.tokens = ids_of("!"), .end = finish::length});
  CHECK(field_of(client.answer().body, "text") == "Hi!");
}

TEST_CASE("log probabilities come with the tokens' bytes") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(chat_path, chat_body(R"(,"logprobs":true,"top_logprobs":2)"));
  const seen_request request = gateway.next_request(peer::admission);
  CHECK(request.sampling.logprobs);
  CHECK(request.sampling.top_logprobs == 2);
  gateway.send_tokens(request, {.tokens = ids_of("A"), .end = finish::length, .with_logprobs = true});
  const http_answer answer = client.answer();
  CHECK(field_of(answer.body, "token") == "A");
  CHECK(contains(answer.body, R"("bytes":[65])"));
  CHECK(contains(answer.body, R"("token":"?")"));
}

TEST_CASE("late copies and tokens of foreign legs change nothing; what overtakes waits") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, prompt_body("x"));
  const seen_request request = gateway.next_request(peer::admission);
  gateway.send_tokens(request, {.first_index = 2, .tokens = ids_of("c")});
  gateway.send_tokens_as(request, request.leg + 1, 0, {.first_index = 0, .tokens = ids_of("X")});
  gateway.send_tokens_as(request, request.leg, 1, {.first_index = 0, .tokens = ids_of("Y")});
  gateway.send_tokens(request, {.choice = 1, .first_index = 0, .tokens = ids_of("Z")});
  gateway.send_tokens(request, {.first_index = 0, .tokens = ids_of("a")});
  gateway.send_tokens(request, {.first_index = 0, .tokens = ids_of("a")});
  gateway.send_tokens(request, {.first_index = 0, .tokens = ids_of("ab")});
  gateway.send_tokens(request, {.first_index = 2, .tokens = ids_of("cd")});
  gateway.send_tokens(request, {.first_index = 4, .tokens = ids_of("e"), .end = finish::length});
  CHECK(field_of(client.answer().body, "text") == "abcde");
}

TEST_CASE("the last token may overtake the others, twice") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, prompt_body("x"));
  const seen_request request = gateway.next_request(peer::admission);
  gateway.send_tokens(request, {.first_index = 2, .tokens = ids_of("c"), .end = finish::length});
  gateway.send_tokens(request, {.first_index = 3, .tokens = ids_of("d"), .end = finish::length});
  gateway.send_tokens(request, {.first_index = 1, .tokens = ids_of("b")});
  gateway.send_tokens(request, {.first_index = 0, .tokens = ids_of("a")});
  CHECK(field_of(client.answer().body, "text") == "abc");
}

TEST_CASE("tokens that never come are missed, and the choice is tried again") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, prompt_body("x", R"(,"max_tokens":190,"stream":true)"));
  const seen_request request = gateway.next_request(peer::admission);
  gateway.send_tokens(request, {.first_index = 0, .tokens = ids_of("ab")});
  client.read_until("ab");
  SUBCASE("by what comes in their stead") {
    for (std::uint32_t i = 0; i < 65; ++i)
      gateway.send_tokens(request, {.first_index = 3 + i, .tokens = ids_of("?")});
  }
  SUBCASE("by their absence") {
    gateway.send_tokens(request, {.first_index = 3, .tokens = ids_of("?"), .end = finish::length});
    gateway.turn_clock(11s);
  }
  const seen_request again = gateway.next_request(peer::conductor);
  CHECK(again.tokens == ids_of("xab"));
  gateway.send_tokens(again, {.first_index = 2, .tokens = ids_of("c"), .end = finish::length});
  CHECK(all_of_field(client.answer().body, "text") == "abc");
}

TEST_CASE("a gateway that dies takes its work with it") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, prompt_body("x"));
  const seen_request request = gateway.next_request(peer::admission);
  gateway.kill_gateway();
  for (const peer who : {peer::admission, peer::conductor}) {
    const seen_end end = gateway.next_end(who);
    CHECK(end.leg == request.leg);
    CHECK(end.cancel);
  }
}

TEST_CASE("a lost worker's choices go on elsewhere, and the client sees the tokens of an undisturbed run") {
  for (const failure reason : {failure::worker_lost, failure::transfer_failed, failure::preempted}) {
    gateway_fixture gateway;
    gateway_client client(gateway.port());
    client.post(completions_path, prompt_body("xy", R"(,"n":2,"seed":9,"max_tokens":6,"stream":true)"));
    const seen_request request = gateway.next_request(peer::admission);
    gateway.send_tokens(request, {.choice = 0, .tokens = ids_of("ab"), .cached_tokens = 2});
    gateway.send_tokens(request, {.choice = 1, .tokens = ids_of("A")});
    gateway.fail(request, reason, "gone");
    const seen_request first = gateway.next_request(peer::conductor);
    const seen_request second = gateway.next_request(peer::conductor);
    CHECK(first.attempt == 1);
    CHECK(first.leg != request.leg);
    CHECK(first.tokens == ids_of("xyab"));
    CHECK(first.prompt_length == 2);
    CHECK(first.first_choice == 0);
    CHECK(first.choice_count == 1);
    CHECK(first.seeds == std::vector<std::uint64_t>{9});
    CHECK(first.sampling.max_tokens == 6);
    CHECK(second.tokens == ids_of("xyA"));
    CHECK(second.first_choice == 1);
    CHECK(second.seeds == std::vector<std::uint64_t>{10});
    // The old leg is over for the conductor; its tokens, should any still come, are not wanted.
    const seen_end end = gateway.next_end(peer::conductor);
    CHECK(end.leg == request.leg);
    CHECK(end.cancel);
    gateway.send_tokens_as(first, request.leg, 0, {.choice = 0, .first_index = 2, .tokens = ids_of("Q")});
    gateway.send_tokens(first, {.choice = 0, .first_index = 2, .tokens = ids_of("c"), .cached_tokens = 4});
    gateway.send_tokens(first, {.choice = 0, .first_index = 3, .tokens = ids_of("d"), .end = finish::length});
    gateway.send_tokens(second,
                        {.choice = 1, .first_index = 1, .tokens = ids_of("B"), .end = finish::length});
    const http_answer answer = client.answer();
    std::string texts[2];
    for (const std::string& event : events_of(answer.body))
      texts[contains(event, R"("index":1)") ? 1 : 0] += field_of(event, "text");
    CHECK(texts[0] == "abcd");
    CHECK(texts[1] == "AB");
    CHECK(gateway.nothing_requested(peer::admission));
    CHECK(gateway.recorder().count().resumed == 1);
    // Hits are counted once, whatever the resumed legs found.
    CHECK(gateway.recorder().count().cached_tokens == 2);
    CHECK(gateway.recorder().count().prompt_tokens == 2);
  }
}

TEST_CASE("faults are borne a bounded number of times, preemptions as often as they come") {
  gateway_fixture_options options;
  options.gateway.max_attempts = 2;
  gateway_fixture gateway(options);
  gateway_client client(gateway.port());
  client.post(completions_path, prompt_body("x"));
  seen_request leg = gateway.next_request(peer::admission);
  for (int i = 0; i < 10; ++i) {
    gateway.fail(leg, failure::preempted);
    leg = gateway.next_request(peer::conductor);
  }
  for (int i = 0; i < 2; ++i) {
    gateway.fail(leg, failure::worker_lost, "its worker died");
    leg = gateway.next_request(peer::conductor);
  }
  CHECK(leg.attempt == 12);
  gateway.fail(leg, failure::worker_lost, "its worker died");
  const http_answer answer = client.answer();
  CHECK(answer.status == 503);
  CHECK(contains(answer.body, "its worker died"));
  CHECK(gateway.recorder().count().failed == 1);
}

TEST_CASE("a refusal is a 429 with Retry-After, and the other prompts' legs are called back") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, R"({"prompt":["a","b"],"stream":true})");
  const seen_request first = gateway.next_request(peer::admission);
  const seen_request second = gateway.next_request(peer::admission);
  gateway.fail(second, failure::refused, "too much to do", 17);
  const http_answer answer = client.answer();
  CHECK(answer.status == 429);
  CHECK(answer.retry_after == "17");
  CHECK(contains(answer.body, "too much to do"));
  std::vector<std::uint64_t> ended;
  for (int i = 0; i < 2; ++i) {
    const seen_end end = gateway.next_end(peer::admission);
    CHECK(end.cancel);
    ended.push_back(end.leg);
  }
  CHECK(std::find(ended.begin(), ended.end(), first.leg) != ended.end());
  CHECK(gateway.recorder().count().refused == 1);
}

TEST_CASE("no worker is a 503 and a bug a 500; once a stream has begun both are events") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, prompt_body("x"));
  gateway.fail(gateway.next_request(peer::admission), failure::unavailable, "nobody is there");
  http_answer answer = client.answer();
  CHECK(answer.status == 503);
  CHECK_FALSE(answer.retry_after.empty());
  client.post(completions_path, prompt_body("x"));
  gateway.fail(gateway.next_request(peer::admission), failure::internal, "a bug");
  answer = client.answer();
  CHECK(answer.status == 500);
  CHECK(contains(answer.body, R"("error")"));
  client.post(completions_path, prompt_body("x", R"(,"stream":true)"));
  const seen_request request = gateway.next_request(peer::admission);
  gateway.send_tokens(request, {.tokens = ids_of("abc")});
  client.read_until("abc");
  gateway.fail(request, failure::unavailable, "nobody is left");
  answer = client.answer();
  CHECK(answer.status == 200);
  CHECK(contains(answer.body, "nobody is left"));
  CHECK(events_of(answer.body).back() == "[DONE]");
}

TEST_CASE("a client that leaves cancels its work everywhere") {
  gateway_fixture gateway;
  for (const bool streaming : {false, true}) {
    gateway_client client(gateway.port());
    client.post(completions_path, prompt_body("x", streaming ? R"(,"stream":true)" : ""));
    const seen_request request = gateway.next_request(peer::admission);
    if (streaming) {
      gateway.send_tokens(request, {.tokens = ids_of("abc")});
      client.read_until("abc");
    }
    client.close();
    for (const peer who : {peer::admission, peer::conductor}) {
      const seen_end end = gateway.next_end(who);
      CHECK(end.leg == request.leg);
      CHECK(end.cancel);
    }
  }
  CHECK(gateway.recorder().count().cancelled == 2);
  CHECK(gateway.running() == 0);
}

TEST_CASE("a session that crashes costs its own request alone, and its legs are called back") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, prompt_body(poison_text));
  CHECK(client.answer().status == 500);

  gateway_client other(gateway.port());
  other.post(completions_path, prompt_body("x"));
  const seen_request healthy = gateway.next_request(peer::admission);
  gateway_client crashing(gateway.port());
  crashing.post(completions_path, prompt_body("y"));
  const seen_request doomed = gateway.next_request(peer::admission);
  gateway.send_tokens(doomed, {.tokens = {poison_token}});
  const http_answer answer = crashing.answer();
  CHECK(answer.status == 500);
  CHECK(field_of(answer.body, "type") == "internal_error");
  for (const peer who : {peer::admission, peer::conductor}) {
    const seen_end end = gateway.next_end(who);
    CHECK(end.leg == doomed.leg);
    CHECK(end.cancel);
  }
  gateway.send_tokens(healthy, {.tokens = ids_of("fine"), .end = finish::length});
  CHECK(field_of(other.answer().body, "text") == "fine");
}

TEST_CASE("a dead conductor's legs without a token go to the new one; a running stream goes on") {
  gateway_fixture gateway;
  gateway_client waiting(gateway.port());
  waiting.post(completions_path, prompt_body("w"));
  const seen_request waits = gateway.next_request(peer::admission);
  gateway_client streaming(gateway.port());
  streaming.post(completions_path, prompt_body("s", R"(,"stream":true)"));
  const seen_request streams = gateway.next_request(peer::admission);
  gateway.send_tokens(streams, {.tokens = ids_of("abc")});
  streaming.read_until("abc");
  gateway.kill(peer::conductor);
  gateway.start(peer::conductor);
  gateway.tell_peers();
  const seen_request again = gateway.next_request(peer::conductor);
  CHECK(again.incarnation == 2);
  CHECK(again.tokens == ids_of("w"));
  CHECK(again.attempt == 1);
  CHECK(again.leg != waits.leg);
  // Admission may still have the old one in its queue.
  const seen_end called_back = gateway.next_end(peer::admission);
  CHECK(called_back.leg == waits.leg);
  CHECK(called_back.cancel);
  gateway.send_tokens(again, {.tokens = ids_of("W"), .end = finish::length});
  CHECK(field_of(waiting.answer().body, "text") == "W");
  gateway.send_tokens(streams, {.first_index = 3, .tokens = ids_of("d"), .end = finish::length});
  CHECK(all_of_field(streaming.answer().body, "text") == "abcd");
}

TEST_CASE("a dead admission controller's requests are admitted by the new one") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, prompt_body("x"));
  const seen_request request = gateway.next_request(peer::admission);
  gateway.kill(peer::admission);
  gateway.start(peer::admission);
  gateway.tell_peers();
  const seen_request again = gateway.next_request(peer::admission);
  CHECK(again.incarnation == 2);
  CHECK(again.leg != request.leg);
  // The old one may have passed it on already.
  CHECK(gateway.next_end(peer::conductor).leg == request.leg);
  gateway.send_tokens(again, {.tokens = ids_of("ok"), .end = finish::length});
  CHECK(field_of(client.answer().body, "text") == "ok");
}

TEST_CASE("a worker that dies while there is no conductor is missed by its silence") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, prompt_body("x", R"(,"stream":true)"));
  const seen_request request = gateway.next_request(peer::admission);
  gateway.send_tokens(request, {.tokens = ids_of("abc")});
  client.read_until("abc");
  gateway.kill(peer::conductor);
  gateway.start(peer::conductor);
  gateway.tell_peers();
  gateway.running();
  gateway.turn_clock(11s);
  const seen_request again = gateway.next_request(peer::conductor);
  CHECK(again.tokens == ids_of("xabc"));
  gateway.send_tokens(again, {.first_index = 3, .tokens = ids_of("d"), .end = finish::length});
  CHECK(all_of_field(client.answer().body, "text") == "abcd");
}

TEST_CASE("without peers a request waits for them, but not for ever") {
  gateway_fixture_options options;
  options.with_peers = false;
  gateway_fixture gateway(options);
  gateway_client patient(gateway.port());
  patient.post(completions_path, prompt_body("x"));
  while (gateway.running() == 0) {
  }
  gateway.start(peer::admission);
  gateway.start(peer::conductor);
  gateway.tell_peers();
  gateway.send_tokens(gateway.next_request(peer::admission), {.tokens = ids_of("ok"), .end = finish::length});
  CHECK(field_of(patient.answer().body, "text") == "ok");

  gateway.kill(peer::conductor);
  gateway.tell_peers();
  gateway.running();
  gateway_client forlorn(gateway.port());
  forlorn.post(completions_path, prompt_body("x"));
  auto answer = std::async(std::launch::async, [&] { return forlorn.answer(); });
  // When the session begins to wait is for it to say, so time passes until it has waited long enough.
  while (answer.wait_for(10ms) != std::future_status::ready) gateway.turn_clock(10s);
  CHECK(answer.get().status == 503);
}

TEST_CASE("a quiet stream gets comments, a request without a token nothing") {
  gateway_fixture gateway;
  gateway_client client(gateway.port());
  client.post(completions_path, prompt_body("x", R"(,"stream":true)"));
  const seen_request request = gateway.next_request(peer::admission);
  gateway.send_tokens(request, {.tokens = ids_of("abc")});
  client.read_until("abc");
  gateway.turn_clock(16s);
  CHECK(contains(client.read_until("\n:") + client.read_until("\n\n"), ":"));
  gateway.send_tokens(request, {.first_index = 3, .tokens = ids_of("d"), .end = finish::length});
  CHECK(all_of_field(client.answer().body, "text") == "abcd");
}

TEST_CASE("tenant and salt are in the root of the block keys, and nothing else is that clients choose") {
  gateway_fixture_options options;
  options.gateway.api_keys = {{"key-a", "alice"}, {"key-b", "bob"}, {"key-a2", "alice"}};
  gateway_fixture gateway(options);
  const auto root_of = [&](std::string_view key, std::string_view extra) {
    gateway_client client(gateway.port());
    client.post(completions_path, prompt_body("x", extra),
                "Authorization: Bearer " + std::string(key) + "\r\n");
    const seen_request request = gateway.next_request(peer::admission);
    return request.root;
  };
  const auto alice = root_of("key-a", "");
  CHECK(alice == root_of("key-a2", R"(,"temperature":0,"user":"someone")"));
  CHECK(alice != root_of("key-b", ""));
  const auto salted = root_of("key-a", R"(,"cache_salt":"s")");
  CHECK(salted != alice);
  CHECK(salted == root_of("key-a", R"(,"cache_salt":"s")"));
}

TEST_CASE("requests without a seed get different ones") {
  gateway_fixture gateway;
  gateway_client first(gateway.port());
  first.post(completions_path, prompt_body("x"));
  const auto one = gateway.next_request(peer::admission).seeds;
  gateway_client second(gateway.port());
  second.post(completions_path, prompt_body("x"));
  CHECK(one != gateway.next_request(peer::admission).seeds);
}
