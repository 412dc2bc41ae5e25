// What is answered to a request.
#pragma once
#include <string>
#include <string_view>

struct reply {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::string fields{};  // further lines of the head, each with its end
};

/// An error as JSON, {"error": why}.
reply refusal(int status, std::string_view why, std::string fields = {});
/// The bytes of a reply: head, and the body unless `head_only`. `last`: the connection ends with it.
std::string bytes_of(const reply& r, bool last, bool head_only);
