// What a message says. Include it after message.h and Boost.Test.
#pragma once

namespace engine_test {

/// Whether words stand in a message, which is shown where they do not.
inline bool says(const std::string& message, const std::string& words) {
  const bool found = message.find(words) != std::string::npos;
  if (!found) BOOST_TEST_MESSAGE(message);
  return found;
}

}  // namespace engine_test
