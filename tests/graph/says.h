// Content of messages. Include it after message.h and Boost.Test.
#pragma once

namespace engine_test {

/// Whether a message contains these words; if not, it is printed.
inline bool says(const std::string& message, const std::string& part) {
  const bool found = message.find(part) != std::string::npos;
  if (!found) BOOST_TEST_MESSAGE(message);
  return found;
}

}  // namespace engine_test
