# Text to tokens and back: a library of its own, so that it needs neither a device nor weights.
set(model_text_sources)
yolk_room(model_text SOURCES ${model_text_sources} PUBLIC yolk::core
  PRIVATE nlohmann_json::nlohmann_json PkgConfig::PCRE2 PkgConfig::UTF8PROC)
