# cmake -DPAGE=index.html -DOUT=web_page.cpp -P embed.cmake: writes the page as a C++ string, each line "@include NAME@"
# replaced by the file of that name beside it.
get_filename_component(folder ${PAGE} DIRECTORY)
file(READ ${PAGE} page)
string(REGEX MATCHALL "@include [a-z._]+@" lines "${page}")
foreach(line ${lines})
  string(REGEX REPLACE "@include (.*)@" "\\1" name ${line})
  file(READ ${folder}/${name} text)
  string(REPLACE "${line}\n" "${text}" page "${page}")
endforeach()
set(delimiter yolk_page)
string(FIND "${page}" ")${delimiter}\"" clash)
if(NOT clash EQUAL -1)
  message(FATAL_ERROR "${PAGE} holds the raw string delimiter )${delimiter}\"")
endif()
file(WRITE ${OUT} "#include \"http/web_page.hpp\"

namespace yolk::http {

std::string_view web_page() {
  static constexpr std::string_view page = R\"${delimiter}(${page})${delimiter}\";
  return page;
}

}  // namespace yolk::http
")
