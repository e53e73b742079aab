yolk_fuzz(config SOURCES config_fuzz.cpp LINK yolk::model)
