// Maps requests to responses.
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

/// State of the server that its pages report.
struct server_state {
  bool stopping = false;
  std::function<std::string()> metrics;  // in Prometheus text format
};

/// Whether a request is refused before its body is read; if so, `with` is the response.
bool refused_unread(const request_head& head, bool chunked, reply& with);
/// The response to a request, or the image to classify.
std::variant<reply, image_bytes> answer_to(const request& r, const server_state& s);
reply answer_of(const prediction& p);
/// The response to bytes that are not a valid request.
reply answer_to_unreadable(const boost::system::error_code& why);
