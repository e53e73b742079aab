#pragma once

#include <string_view>

namespace yolk::http {

/// The page at /: http/web/index.html with the files that it includes in their places, text/html in UTF-8. It
/// loads nothing from elsewhere and works under the content security policy "default-src 'self'
/// 'unsafe-inline'".
std::string_view web_page();

}  // namespace yolk::http
