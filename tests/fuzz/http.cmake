yolk_fuzz(http_message SOURCES http_message_fuzz.cpp LINK yolk::http)
yolk_fuzz(http_request_body SOURCES http_request_body_fuzz.cpp LINK yolk::http)
