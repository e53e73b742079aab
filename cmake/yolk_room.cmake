# yolk_room(<name> SOURCES ... [PUBLIC ...] [PRIVATE ...])
# A room: folder = target (yolk_<name>, alias yolk::<name>) = namespace. Includes are rooted at the repository.
function(yolk_room name)
  cmake_parse_arguments(room "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  if(room_SOURCES)
    add_library(yolk_${name} STATIC ${room_SOURCES})
    target_include_directories(yolk_${name} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(yolk_${name} PUBLIC ${room_PUBLIC} PRIVATE ${room_PRIVATE})
  else()
    add_library(yolk_${name} INTERFACE)
    target_include_directories(yolk_${name} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(yolk_${name} INTERFACE ${room_PUBLIC})
  endif()
  add_library(yolk::${name} ALIAS yolk_${name})
endfunction()

# What every test needs of its environment. UCX reads its two variables while it is loaded, before main can set them
# (transport/process.hpp); the sanitizers' files say which report is not ours, and why.
set(YOLK_TEST_ENVIRONMENT "UCX_HANDLE_ERRORS=none" "UCX_MEM_MMAP_HOOK_MODE=none")
set(YOLK_TEST_SLOWDOWN 1)
if(YOLK_SANITIZE)
  set(YOLK_TEST_SLOWDOWN 4)  # deadlines are so much later; tests/serve/harness.py reads it
  set(suppressions "suppressions=${PROJECT_SOURCE_DIR}/scripts/sanitizers")
  list(APPEND YOLK_TEST_ENVIRONMENT
    "YOLK_TEST_SLOWDOWN=${YOLK_TEST_SLOWDOWN}"
    "LSAN_OPTIONS=${suppressions}/lsan.supp:print_suppressions=0"
    "TSAN_OPTIONS=${suppressions}/tsan.supp:halt_on_error=1"
    "UBSAN_OPTIONS=${suppressions}/ubsan.supp:halt_on_error=1:print_stacktrace=1")
endif()

# Limits the time of a test, seconds: a deadline for what hangs, not a claim of speed.
function(yolk_test_timeout test seconds)
  math(EXPR seconds "${seconds} * ${YOLK_TEST_SLOWDOWN}")
  set_tests_properties(${test} PROPERTIES TIMEOUT ${seconds})
endfunction()

# yolk_test(<room> SOURCES a_test.cpp ... [LINK ...] [MAIN main.cpp] [TIMEOUT seconds])
# One doctest program for a room's tests; one ctest entry per file, so that a failure names its noun. A room that uses
# UCX takes tests/transport/main.cpp as MAIN.
function(yolk_test room)
  cmake_parse_arguments(test "" "TIMEOUT;MAIN" "SOURCES;LINK" ${ARGN})
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 300)
  endif()
  if(NOT test_MAIN)
    set(test_MAIN ${PROJECT_SOURCE_DIR}/tests/doctest_main.cpp)
  endif()
  add_executable(${room}_tests ${test_SOURCES} ${test_MAIN})
  target_link_libraries(${room}_tests PRIVATE ${test_LINK} doctest::doctest)
  target_include_directories(${room}_tests PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${room}_tests PRIVATE YOLK_SOURCE_DIR="${PROJECT_SOURCE_DIR}" YOLK_BINARY_DIR="${PROJECT_BINARY_DIR}")
  foreach(source ${test_SOURCES})
    get_filename_component(noun ${source} NAME_WE)
    string(REGEX REPLACE "_test$" "" noun ${noun})
    add_test(NAME ${room}/${noun} COMMAND ${room}_tests --source-file=*/${noun}_test.cpp)
    set_property(TEST ${room}/${noun} PROPERTY ENVIRONMENT ${YOLK_TEST_ENVIRONMENT})
    # A file whose cases were not linked in, or that has none, must not pass.
    set_tests_properties(${room}/${noun} PROPERTIES FAIL_REGULAR_EXPRESSION "test cases: +0 ")
    yolk_test_timeout(${room}/${noun} ${test_TIMEOUT})
  endforeach()
endfunction()
