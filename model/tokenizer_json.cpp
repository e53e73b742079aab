#include "model/tokenizer_json.hpp"

#include <string_view>

namespace yolk::model::files {

namespace {

constexpr std::size_t max_depth = 64;
/// Text in an error is somebody else's: only its beginning is shown.
constexpr std::size_t shown_bytes = 60;

std::string shown(const std::string& text) {
  return json(text.substr(0, shown_bytes)).dump(-1, ' ', true, json::error_handler_t::replace);
}

/// Receives the parser's events. Builds a tree, but for model.vocab and model.merges.
class document_reader {
 public:
  split_document document;
  std::optional<fault> problem;

  bool null() { return add(json(nullptr), "null"); }
  bool boolean(bool value) { return add(json(value), "a boolean"); }
  bool number_integer(json::number_integer_t value) { return add(json(value), "a negative number"); }
  bool number_float(json::number_float_t value, const std::string&) { return add(json(value), "a fraction"); }
  bool binary(json::binary_t&) { return false; }

  bool number_unsigned(json::number_unsigned_t value) {
    if (mode_ != mode::vocabulary) return add(json(value), "a number");
    if (value >= 0xffffffffull)
      return fail("model.vocab[" + shown(key_) + "]", "the id " + std::to_string(value) + " is out of range");
    document.vocabulary.emplace_back(std::move(key_), static_cast<core::token_id>(value));
    return true;
  }
  bool string(std::string& value) {
    if (mode_ == mode::pair) {
      pair_.push_back(std::move(value));
      return pair_.size() <= 2 || fail(merge_field(), "has more than two tokens");
    }
    if (mode_ != mode::merges) return add(json(std::move(value)), "a string");
    const std::size_t space = value.find(' ');
    if (space == std::string::npos || value.find(' ', space + 1) != std::string::npos) {
      return fail(merge_field(), shown(value) + " is not two tokens with one space between them");
    }
    document.merges.emplace_back(value.substr(0, space), value.substr(space + 1));
    return true;
  }
  bool key(std::string& value) {
    key_ = std::move(value);
    return true;
  }
  bool start_object(std::size_t) {
    if (mode_ == mode::tree && at_table("vocab")) {
      mode_ = mode::vocabulary;
      return true;
    }
    return open(json::object(), "an object");
  }
  bool start_array(std::size_t) {
    if (mode_ == mode::tree && at_table("merges")) {
      mode_ = mode::merges;
      return true;
    }
    if (mode_ == mode::merges) {
      mode_ = mode::pair;
      pair_.clear();
      return true;
    }
    return open(json::array(), "an array");
  }
  bool end_object() {
    if (mode_ == mode::vocabulary) {
      mode_ = mode::tree;
    } else {
      stack_.pop_back();
    }
    return true;
  }
  bool end_array() {
    if (mode_ == mode::pair) {
      if (pair_.size() != 2)
        return fail(merge_field(), "has " + std::to_string(pair_.size()) + " tokens, not two");
      document.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
      mode_ = mode::merges;
    } else if (mode_ == mode::merges) {
      mode_ = mode::tree;
    } else {
      stack_.pop_back();
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception& error) {
    std::string_view what = error.what();
    // nlohmann's messages begin with "[json.exception.parse_error.101] ".
    if (const std::size_t end = what.find("] "); what.starts_with('[') && end != std::string_view::npos)
      what.remove_prefix(end + 2);
    problem = fault{errc::malformed, "byte " + std::to_string(position),
                    "is no JSON: " + std::string(what.substr(0, 240))};
    return false;
  }

 private:
  enum class mode { tree, vocabulary, merges, pair };

  [[nodiscard]] bool at_table(std::string_view name) const {
    return stack_.size() == 2 && in_model_ && stack_.back()->is_object() && key_ == name;
  }
  [[nodiscard]] std::string merge_field() const {
    return "model.merges[" + std::to_string(document.merges.size()) + "]";
  }
  bool fail(std::string field, std::string why) {
    problem = fault{errc::malformed, std::move(field), std::move(why)};
    return false;
  }
  bool in_tree(const char* what) {
    switch (mode_) {
      case mode::tree:
        return true;
      case mode::vocabulary:
        return fail("model.vocab[" + shown(key_) + "]", std::string("is ") + what + ", not an id");
      default:
        return fail(merge_field(), std::string("is ") + what + ", not two tokens");
    }
  }
  /// Puts a value where the parser is, and returns where it lies.
  json* place(json value) {
    if (stack_.empty()) {
      document.tree = std::move(value);
      return &document.tree;
    }
    json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }
  bool add(json value, const char* what) {
    if (!in_tree(what)) return false;
    place(std::move(value));
    return true;
  }
  bool open(json value, const char* what) {
    if (!in_tree(what)) return false;
    if (stack_.size() >= max_depth)
      return fail("byte depth", "nested deeper than " + std::to_string(max_depth));
    if (stack_.size() == 1) in_model_ = stack_.back()->is_object() && key_ == "model";
    stack_.push_back(place(std::move(value)));
    return true;
  }

  mode mode_ = mode::tree;
  bool in_model_ = false;
  std::vector<json*> stack_;  ///< open objects and arrays; a parent does not change while a child is open
  std::string key_;
  std::vector<std::string> pair_;
};

}  // namespace

split_document parse_document(std::string_view text) {
  document_reader reader;
  const bool whole = json::sax_parse(text.begin(), text.end(), &reader);
  if (reader.problem) throw *std::move(reader.problem);
  if (!whole) reject("the file", "is no JSON");
  if (!reader.document.tree.is_object()) reject("the file", "is no JSON object");
  return std::move(reader.document);
}

}  // namespace yolk::model::files
