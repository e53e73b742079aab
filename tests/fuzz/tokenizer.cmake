yolk_fuzz(tokenizer SOURCES tokenizer_fuzz.cpp LINK yolk::model_text)
yolk_fuzz(chat_template SOURCES chat_template_fuzz.cpp LINK yolk::model_text)
