# Text to tokens and back: a library of its own, so that it needs neither a device nor weights.
yolk_room(model_text
  SOURCES bpe.cpp bpe_table.cpp chat_template.cpp chat_template_functions.cpp chat_template_lexer.cpp
          chat_template_parser.cpp chat_template_render.cpp chat_template_value.cpp text_stream.cpp tokenizer.cpp tokenizer_added.cpp tokenizer_file.cpp
          tokenizer_json.cpp tokenizer_pattern.cpp tokenizer_stages.cpp unicode_text.cpp
  PUBLIC yolk::core
  PRIVATE nlohmann_json::nlohmann_json PkgConfig::PCRE2 PkgConfig::UTF8PROC)
