#include "model/tokenizer_added.hpp"

#include <algorithm>

namespace yolk::model {

namespace {

constexpr auto before = [](const std::pair<char, std::uint32_t>& edge, char byte) {
  return edge.first < byte;
};

}  // namespace

std::uint32_t added_token_finder::child(std::uint32_t parent, char byte) const {
  const auto& next = nodes_[parent].next;
  const auto edge = std::lower_bound(next.begin(), next.end(), byte, before);
  return edge != next.end() && edge->first == byte ? edge->second : 0;
}

void added_token_finder::add(std::string_view content, std::uint32_t index) {
  if (content.empty()) return;
  std::uint32_t& root = roots_[static_cast<std::uint8_t>(content.front())];
  if (root == 0) {
    root = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  std::uint32_t state = root;
  for (const char byte : content.substr(1)) {
    std::uint32_t next = child(state, byte);
    if (next == 0) {
      next = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
      auto& edges = nodes_[state].next;
      edges.insert(std::lower_bound(edges.begin(), edges.end(), byte, before), {byte, next});
    }
    state = next;
  }
  nodes_[state].index = index;
}

}  // namespace yolk::model
