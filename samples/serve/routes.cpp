#include "routes.h"

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "page.h"
#include "picture.h"

namespace http = boost::beast::http;
using json = nlohmann::json;

namespace {

constexpr const char* kinds = "expected the content type image/png or application/octet-stream";

std::string text_of(boost::beast::string_view s) { return {s.data(), s.size()}; }

// nlohmann::json is used only to quote strings: destructors of its objects allocate, and a failure there terminates the
// program.
std::string quoted(std::string_view s) { return json(s).dump(-1, ' ', false, json::error_handler_t::replace); }

std::string spelled(float x) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}

// Content type in lowercase, without parameters.
std::string kind_of(const request_head& head) {
  std::string kind = text_of(head[http::field::content_type]);
  kind.resize(std::min(kind.find_first_of("; \t"), kind.size()));
  for (char& c : kind) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return kind;
}

std::variant<reply, image_bytes> image_in(const request& r) {
  const std::string type = kind_of(r);
  const std::string& body = r.body();
  image_bytes image;
  if (type == "image/png") {
    std::string why;
    std::vector<std::uint8_t> pixels;
    if (!read_png(body, image_side, image_side, pixels, why)) return refusal(400, why);
    std::copy(pixels.begin(), pixels.end(), image.begin());
  } else if (type == "application/octet-stream") {
    if (body.size() != image_pixels)
      return refusal(400, "the body has " + std::to_string(body.size()) + " bytes; expected 784, one per pixel");
    std::copy(body.begin(), body.end(), image.begin());
  } else {
    return refusal(415, kinds + std::string(type.empty() ? "; got none" : ""));
  }
  return image;
}

}  // namespace

reply refusal(int status, std::string_view why, std::string fields) {
  return {.status = status, .body = "{\"error\":" + quoted(why) + "}\n", .fields = std::move(fields)};
}

std::string bytes_of(const reply& r, bool last, bool head_only) {
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(r.status)));
  std::string out = "HTTP/1.1 " + std::to_string(r.status) + ' ' + text_of(reason) + "\r\n";
  out += "Content-Type: " + r.type + "\r\nContent-Length: " + std::to_string(r.body.size()) + "\r\n" + r.fields;
  out += last ? "Connection: close\r\n\r\n" : "Connection: keep-alive\r\n\r\n";
  if (!head_only) out += r.body;
  return out;
}

// Requires Content-Length, which bounds the memory of a body, and refuses compressed bodies.
bool refused_unread(const request_head& head, bool chunked, reply& with) {
  const auto verb = head.method();
  const bool has_body = verb != http::verb::get && verb != http::verb::head && verb != http::verb::options;
  const auto lengths = head.equal_range(http::field::content_length);
  const std::string length = text_of(head[http::field::content_length]);
  if (chunked || head.count(http::field::transfer_encoding) || (has_body && lengths.first == lengths.second))
    with = refusal(411, "expected the length of the body in Content-Length");
  else if (head.count(http::field::content_encoding)) with = refusal(415, "expected a body without Content-Encoding");
  else if (std::distance(lengths.first, lengths.second) > 1 || length.find_first_not_of("0123456789") != length.npos)
    with = refusal(400, "Content-Length is not a valid length");
  else if (kind_of(head).starts_with("multipart/")) with = refusal(415, kinds);
  else return false;
  return true;
}

std::variant<reply, image_bytes> answer_to(const request& r, const server_state& s) {
  std::string path = text_of(r.target());
  path.resize(std::min(path.find('?'), path.size()));
  if (path == "/predict") {
    if (r.method() == http::verb::post) return image_in(r);
    return refusal(405, "expected POST with an image", "Allow: POST\r\n");
  }
  const bool known = path == "/healthz" || path == "/metrics" || path == "/";
  if (!known) return refusal(404, "no such page; expected POST /predict, GET /healthz, GET /metrics or GET /");
  if (r.method() != http::verb::get && r.method() != http::verb::head)
    return refusal(405, "expected GET or HEAD", "Allow: GET, HEAD\r\n");
  if (path == "/metrics") return reply{.body = s.metrics(), .type = "text/plain; version=0.0.4"};
  if (path == "/") return reply{.body = page, .type = "text/html; charset=utf-8"};
  if (s.stopping) return refusal(503, "the server is stopping");
  return reply{.body = "{\"status\":\"ok\"}\n"};
}

static std::string as_json(const prediction& p) {
  std::string s =
      "{\"class\":" + quoted(class_names[p.label]) + ",\"label\":" + std::to_string(p.label) + ",\"probabilities\":[";
  for (std::size_t i = 0; i < p.probabilities.size(); ++i) s += (i ? "," : "") + spelled(p.probabilities[i]);
  return s + "]}\n";
}

reply answer_of(const prediction& p) {
  switch (p.what) {
    case verdict::classified: return {.body = as_json(p)};
    case verdict::full: return refusal(503, "too many requests are queued", "Retry-After: 1\r\n");
    case verdict::late: return refusal(504, "the answer took too long");
    case verdict::stopping: return refusal(503, "the server is stopping");
    case verdict::no_memory: return refusal(503, "out of memory", "Retry-After: 1\r\n");
    case verdict::failed: break;
  }
  return refusal(500, p.reason);
}

reply answer_to_unreadable(const boost::system::error_code& why) {
  if (why == http::error::body_limit) return refusal(413, "the body is too long");
  if (why == http::error::header_limit || why == http::error::buffer_overflow)
    return refusal(431, "the request header is too long");
  if (why == http::error::partial_message) return refusal(400, "the request is incomplete");
  if (why == http::error::bad_content_length) return refusal(400, "Content-Length is not a valid length");
  return refusal(400, "invalid or unsupported HTTP request");
}
