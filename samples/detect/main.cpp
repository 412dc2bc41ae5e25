// An HTTP server for an ONNX detector that ends in NonMaxSuppression. A request is a PNG picture, the response is the
// boxes as JSON.
//
//   detect MODEL.onnx [--port 8080] [--threads 2]     POST /detect, GET /healthz; SIGTERM and SIGINT stop it
//   detect --write MODEL.onnx                         writes a model that finds bright and dark squares
//
// Each thread serves one connection at a time with its own reference model; all threads share weights and plans. The
// sample `serve` adds what a public server needs, such as connection limits and metrics.
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

#include <sys/socket.h>
#include <sys/time.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../serve/picture.h"
#include "detector.h"

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using json = nlohmann::json;

namespace {

constexpr std::size_t max_body = std::size_t(1) << 20;
constexpr int seconds_of_patience = 5;  // timeout of one socket read or write

struct answer {
  http::status status = http::status::ok;
  json body;
};
answer refusal(http::status status, const std::string& why) { return {status, {{"error", why}}}; }

answer answer_to(const http::request<http::string_body>& r, const detector& model, detector::reference& net) {
  if (r.target() == "/healthz") return {.body = {{"status", "ok"}}};
  if (r.target() != "/detect") return refusal(http::status::not_found, "no such page; expected /detect or /healthz");
  if (r.method() != http::verb::post)
    return refusal(http::status::method_not_allowed, "/detect takes a POST with a PNG");
  std::vector<std::uint8_t> pixels;
  std::string why;
  if (!read_png(r.body(), model.width(), model.height(), pixels, why)) return refusal(http::status::bad_request, why);
  json boxes = json::array();
  for (const auto& d : net(pixels))
    boxes.push_back({{"box", {d.left, d.top, d.right, d.bottom}}, {"score", d.score}, {"label", d.label}});
  return {.body = {{"boxes", boxes}}};
}

// Reads and discards what the client still sends, such as a body that is too large: closing the socket with unread
// bytes would make the client lose the response.
void discard_rest(tcp::socket& socket) {
  constexpr std::size_t max = 16 * max_body;
  boost::system::error_code failed;
  socket.shutdown(tcp::socket::shutdown_send, failed);
  std::vector<char> unread(65536);
  for (std::size_t n = 0; !failed && n < max;) n += socket.read_some(asio::buffer(unread), failed);
}

// Answers the requests of a connection until the client closes it or a timeout expires.
void serve(tcp::socket& socket, const detector& model, detector::reference& net) {
  const timeval patience{seconds_of_patience, 0};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO})
    ::setsockopt(socket.native_handle(), SOL_SOCKET, option, &patience, sizeof patience);
  boost::beast::flat_buffer buffer(max_body + 16384);
  for (;;) {
    http::request_parser<http::string_body> parser;
    parser.body_limit(max_body);
    boost::system::error_code failed;
    http::read(socket, buffer, parser, failed);
    const bool too_large = failed == http::error::body_limit;
    if (failed == http::error::end_of_stream || (failed && failed.category() == boost::system::system_category()))
      return;
    answer a;
    if (too_large) a = refusal(http::status::payload_too_large, "the body is too long; expected at most 1048576 bytes");
    else if (failed) a = refusal(http::status::bad_request, "invalid HTTP request: " + failed.message());
    else {
      try {
        a = answer_to(parser.get(), model, net);
      } catch (const std::exception& e) { a = refusal(http::status::internal_server_error, e.what()); }
    }
    http::response<http::string_body> out(a.status, 11);
    out.set(http::field::content_type, "application/json");
    out.keep_alive(!failed && parser.keep_alive());
    out.body() = a.body.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    out.prepare_payload();
    boost::system::error_code unsent;
    http::write(socket, out, unsent);
    if (unsent || !out.keep_alive()) break;
  }
  discard_rest(socket);
}

// Accept loop of one thread; an error ends only the connection in which it occurs.
void work(tcp::acceptor& acceptor, const detector& model) {
  detector::reference net(model);
  for (;;) {
    boost::system::error_code failed;
    tcp::socket socket = acceptor.accept(failed);
    if (failed) continue;
    try {
      serve(socket, model, net);
    } catch (const std::exception& e) { std::fprintf(stderr, "detect: a connection ended: %s\n", e.what()); }
  }
}

// Value of an option, checked to be an integer from `least` to `max`.
int number_of(std::string_view option, const char* text, int least, int max) {
  char* end = nullptr;
  const long n = text ? std::strtol(text, &end, 10) : -1;
  if (!text || *end || end == text || n < least || n > max)
    throw std::runtime_error(std::string(option) + ": expected a number from " + std::to_string(least) + " to " +
                             std::to_string(max));
  return static_cast<int>(n);
}

int run(int count, char** arguments) {
  std::string model;
  int port = 8080, threads = 2;
  bool write = false;
  for (int i = 1; i < count; ++i) {
    const std::string_view a = arguments[i];
    const char* next = i + 1 < count ? arguments[i + 1] : nullptr;
    if (a == "--port") port = number_of(a, next, 0, 65535), ++i;
    else if (a == "--threads") threads = number_of(a, next, 1, 64), ++i;
    else if (a == "--write") write = true;
    else if (model.empty() && !a.starts_with("--")) model = a;
    else throw std::runtime_error("usage: detect MODEL.onnx [--port N] [--threads N], or detect --write MODEL.onnx");
  }
  if (model.empty()) throw std::runtime_error("no model is given; `detect --write MODEL.onnx` writes one");
  if (write) {
    write_detector(model);
    return 0;
  }
  const detector net(model);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM), sigaddset(&ends, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // the threads inherit the mask
  std::signal(SIGPIPE, SIG_IGN);
  asio::io_context io;
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), static_cast<unsigned short>(port)});
  for (int i = 0; i < threads; ++i) std::thread([&] { work(acceptor, net); }).detach();
  std::printf("listening on http://127.0.0.1:%d, pictures of %u x %u\n", int(acceptor.local_endpoint().port()),
              net.width(), net.height());
  std::fflush(stdout);
  int got = 0;
  ::sigwait(&ends, &got);
  std::_Exit(0);  // ends the threads too; they own nothing that outlives the process
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "detect: %s\n", e.what());
    return 2;
  }
}
