#include "connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>

#include <algorithm>
#include <utility>

namespace asio = boost::asio;
namespace http = boost::beast::http;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t max_header_bytes = 8192, max_buffer_bytes = 16384;
constexpr std::chrono::milliseconds time_to_write = 5s, time_to_drain = 1s, time_beyond_patience = 1s;
constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";

bool expects_go_on(const request_head& head) {
  return boost::beast::iequals(head[http::field::expect], "100-continue");
}

}  // namespace

connection::connection(connections_state& state, socket_type socket)
    : state_(state),
      place_(state.all.insert(state.all.end(), this)),
      socket_(std::move(socket)),
      buffer_(max_buffer_bytes) {
  ++state_.open;
}
connection::~connection() {
  close();
  state_.all.erase(place_);
}

void connection::close() {
  if (stage_ == stage::closed) return;
  forget_answer();
  stage_ = stage::closed;
  --state_.open;
  error ignored;
  socket_.close(ignored);
}

void connection::enter(stage s, std::chrono::milliseconds time) {
  stage_ = s;
  since_ = clock::now();
  until_ = since_ + time;
}
void connection::hurry(clock::time_point until) {
  if (stage_ == stage::idle) until_ = std::min(until_, until);
}

void connection::look(clock::time_point now) {
  if (now < until_ || stage_ == stage::closed) return;
  if (stage_ == stage::computing) {
    if (pending_->ready() || now < until_ + time_beyond_patience) return;
    const auto self = std::exchange(held_, nullptr);
    forget_answer();
    respond(answer_of({.what = verdict::late}), last_);
  } else if (stage_ == stage::receiving) {
    ++state_.timed_out;
    late_ = true;  // the canceled read fails, and its handler sends the 408 response
    until_ = now + time_to_drain;
    error ignored;
    socket_.cancel(ignored);
  } else {
    if (stage_ == stage::writing) ++state_.timed_out;
    close();
  }
}

// ---- a request ------------------------------------------------------------------------------------------------------

void connection::await_request() {
  if (buffer_.size() != 0) return receive();  // pipelined: the client sent it before the last response
  enter(stage::idle, state_.pages.stopping ? state_.options.last_requests : state_.options.idle);
  socket_.async_wait(socket_type::wait_read, [self = shared_from_this()](const error& e) {
    if (!e && self->stage_ == stage::idle) self->receive();
  });
}

// The timeout covers the whole request, not each read.
void connection::receive() {
  parser_.emplace();
  parser_->header_limit(max_header_bytes);
  parser_->body_limit(state_.options.max_bytes);
  late_ = head_only_ = last_ = false;
  enter(stage::receiving, state_.options.receive);
  http::async_read_header(socket_, buffer_, *parser_,
                          [self = shared_from_this()](const error& e, std::size_t) { self->on_head(e); });
}

// Sends an error response to an invalid request, or closes the connection if no response is possible or expected.
bool connection::unreadable(const error& e) {
  if (!e) return false;
  if (stage_ == stage::closed) return true;
  const bool begun = buffer_.size() != 0 || parser_->got_some();
  const bool http_error = e.category() == http::make_error_code(http::error::end_of_stream).category();
  if (late_ && begun) respond(refusal(408, "the request took too long to arrive"), true);
  else if (late_ || !http_error || e == http::error::end_of_stream) close();
  else respond(answer_to_unreadable(e), true);
  return true;
}

void connection::on_head(const error& e) {
  if (unreadable(e)) return;
  const request_head& head = parser_->get();
  head_only_ = head.method() == http::verb::head;
  reply refused;
  if (refused_unread(head, parser_->chunked(), refused)) return respond(refused, true);
  if (parser_->is_done() || !expects_go_on(head)) return read_body();
  asio::async_write(socket_, asio::buffer(go_on), [self = shared_from_this()](const error& failed, std::size_t) {
    if (!self->unreadable(failed)) self->read_body();
  });
}

void connection::read_body() {
  http::async_read(socket_, buffer_, *parser_, [self = shared_from_this()](const error& e, std::size_t) {
    if (!self->unreadable(e)) self->on_request();
  });
}

// ---- response -------------------------------------------------------------------------------------------------------

void connection::on_request() {
  last_ = !parser_->keep_alive();
  const request r = parser_->release();
  parser_.reset();
  auto answer = answer_to(r, state_.pages);
  if (const auto* image = std::get_if<image_bytes>(&answer)) classify(*image);
  else respond(std::get<reply>(answer), last_);
}

void connection::classify(const image_bytes& image) {
  // Connections that wait for the net cannot be evicted; this limit keeps some that can.
  if (state_.computing >= state_.options.connections) return respond(answer_of({.what = verdict::full}), last_);
  prediction refused;
  ticket_ = std::make_shared<ticket>(ticket{.of = this});
  pending_ = state_.net.begin(image, [t = ticket_, &wake = state_.wake] { wake.push(t); }, refused);
  if (!pending_) {
    ticket_.reset();
    return respond(answer_of(refused), last_);
  }
  ++state_.computing;
  held_ = shared_from_this();
  enter(stage::computing, state_.options.compute);
}

// Detaches from the pending prediction; its result will be dropped.
void connection::forget_answer() {
  if (ticket_) ticket_->of = nullptr;
  ticket_.reset();
  if (pending_) --state_.computing;
  pending_.reset();
}

void connection::answer_is_ready() {
  if (stage_ != stage::computing) return;
  const auto self = std::exchange(held_, nullptr);
  const auto p = pending_->take();
  forget_answer();
  respond(answer_of(p), last_);
}

void connection::respond(const reply& r, bool last) {
  last_ = last || state_.pages.stopping;
  status_ = r.status;
  out_ = bytes_of(r, last_, head_only_);
  parser_.reset();
  enter(stage::writing, time_to_write);
  asio::async_write(socket_, asio::buffer(out_), [self = shared_from_this()](const error& e, std::size_t) {
    if (e) return self->close();
    ++self->state_.answered;
    ++self->state_.by_status[static_cast<std::size_t>(self->status_)];
    if (self->last_) self->shut();
    else self->await_request();
  });
}

// Reads and discards further input for a moment: closing with unread input would make the client lose the response.
void connection::shut() {
  error failed;
  socket_.shutdown(socket_type::shutdown_send, failed);
  if (failed) return close();
  enter(stage::draining, time_to_drain);
  drain();
}
void connection::drain() {
  socket_.async_read_some(asio::buffer(state_.discarded), [self = shared_from_this()](const error& e, std::size_t) {
    if (e) self->close();
    else self->drain();
  });
}
