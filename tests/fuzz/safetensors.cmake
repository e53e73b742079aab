yolk_fuzz(safetensors SOURCES safetensors_fuzz.cpp LINK yolk::model)
