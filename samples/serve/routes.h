// What the server answers to which request.
#pragma once
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

#include <functional>
#include <string>
#include <variant>

#include "classifier.h"
#include "reply.h"

using request_head = boost::beast::http::request_header<>;
using request = boost::beast::http::request<boost::beast::http::string_body>;

/// What the pages say of the server itself.
struct server_state {
  bool stopping = false;
  std::function<std::string()> metrics;  // in the text form of Prometheus
};

/// Whether a request is refused before its body is read, and with which words.
bool refused_unread(const request_head& head, bool chunked, reply& with);
/// The answer to a request, or the image that it asks about.
std::variant<reply, image_bytes> answer_to(const request& r, const server_state& s);
reply answer_of(const prediction& p);
/// The answer to what could not be read as a request.
reply answer_to_unreadable(const boost::system::error_code& why);
