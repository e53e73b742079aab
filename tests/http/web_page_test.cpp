#include "http/web_page.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "http/cluster_view.hpp"

using namespace yolk::http;

namespace {

std::string read_web_file(const std::string& name) {
  std::ifstream file(YOLK_SOURCE_DIR "/http/web/" + name, std::ios::binary);
  REQUIRE_MESSAGE(file, name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("the program carries the page byte for byte, with the files that it includes") {
  auto text = read_web_file("index.html");
  for (const std::string name : {"style.css", "helpers.js", "chat.js", "picture.js", "numbers.js"}) {
    const auto line = "@include " + name + "@\n";
    const auto place = text.find(line);
    REQUIRE_MESSAGE(place != std::string::npos, name);
    text.replace(place, line.size(), read_web_file(name));
  }
  REQUIRE(text.size() > 10'000);
  CHECK(text.find("@include ") == std::string::npos);
  CHECK(web_page() == text);
}

TEST_CASE("the page loads nothing from elsewhere and writes no text as HTML") {
  const std::string page(web_page());
  for (const char* forbidden : {"src=\"", "<link", "@import", "url(", "https://", "innerHTML", "outerHTML",
                                "insertAdjacentHTML", "document.write", "eval("}) {
    CAPTURE(forbidden);
    CHECK(page.find(forbidden) == std::string::npos);
  }
  // The one address in it names SVG's namespace.
  const auto first = page.find("http://");
  CHECK(page.compare(first, 26, "http://www.w3.org/2000/svg") == 0);
  CHECK(page.find("http://", first + 1) == std::string::npos);
}

TEST_CASE("every field of the cluster's picture that the page reads is one that the server sends") {
  cluster_view view;
  view.actors.resize(1);
  view.links.resize(1);
  view.tiers.resize(1);
  const auto sent = nlohmann::json::parse(to_json(view)).flatten();
  std::string names;
  for (const auto& [path, value] : sent.items()) names += path + " ";
  const std::string page(web_page());
  for (const char* field : {"requests_running",
                            "requests_waiting",
                            "requests_finished",
                            "requests_refused",
                            "requests_cancelled",
                            "preemptions",
                            "prompt_tokens",
                            "cached_tokens",
                            "generated_tokens",
                            "transfer_bytes",
                            "transfer_failures",
                            "blocks_total",
                            "blocks_used",
                            "blocks_cached",
                            "tokens_per_second",
                            "uptime_seconds",
                            "max_model_len",
                            "hit_tokens",
                            "miss_tokens",
                            "evicted_blocks",
                            "bytes_used",
                            "bytes_limit",
                            "p50_ms",
                            "p99_ms",
                            "incarnation",
                            "restarts",
                            "device",
                            "owner"}) {
    CAPTURE(field);
    CHECK(page.find(std::string(".") + field) != std::string::npos);
    CHECK(names.find(std::string("/") + field) != std::string::npos);
  }
}
