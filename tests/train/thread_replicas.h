// Threads that train one model together. Include it after `import lamina;`, <boost/test/unit_test.hpp> and the headers
// of std.
#pragma once

namespace replicas_test {

using namespace lamina;

// State shared by the threads of one process.
struct meeting {
  explicit meeting(int n) : count(n), gate(n), floats(static_cast<std::size_t>(n)), doubles(floats.size()) {}
  int count;
  std::barrier<> gate;
  std::vector<view<float>> floats;
  std::vector<view<double>> doubles;
  const void* sent = nullptr;
  std::atomic<bool> failed = false;
  std::mutex m;
  std::string why;
};
class thread_replicas final : public replicas {
 public:
  thread_replicas(meeting& all, int rank) : all_(all), rank_(rank) {}
  int rank() const override { return rank_; }
  int count() const override { return all_.count; }
  void sum(view<float> numbers) override { add(all_.floats, numbers); }
  void sum(view<double> numbers) override { add(all_.doubles, numbers); }
  // A begun sum runs later: when the next one begins, or at the end.
  void begin_sum(view<float> numbers) override {
    later([this, numbers] { sum(numbers); });
  }
  void begin_sum(view<double> numbers) override {
    later([this, numbers] { sum(numbers); });
  }
  void finish_sums() override { later({}); }
  // A sum for one rank leaves other numbers in the other ranks.
  void begin_sum_for(int owner, view<float> numbers) override { later_for(owner, numbers); }
  void begin_sum_for(int owner, view<double> numbers) override { later_for(owner, numbers); }
  /// Number of begun sums, and those for a single rank.
  int begun() const { return begun_; }
  int begun_for_one() const { return begun_for_one_; }
  void broadcast(void* bytes, std::size_t count) override {
    if (rank_ == 0) all_.sent = bytes;
    meet();
    if (rank_ != 0 && count) std::memcpy(bytes, all_.sent, count);
    meet();
  }
  void fail(std::string_view why) noexcept override {
    std::lock_guard lock(all_.m);
    if (all_.why.empty()) all_.why = why;
    all_.failed = true;
    all_.gate.arrive_and_drop();
  }

 private:
  void meet() {
    all_.gate.arrive_and_wait();
    if (all_.failed) {
      all_.gate.arrive_and_drop();
      throw std::runtime_error("another replica has failed");
    }
  }
  template <class T> void add(std::vector<view<T>>& of, view<T> numbers) {
    of[static_cast<std::size_t>(rank_)] = numbers;
    meet();
    std::vector<T> sum(numbers.size());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      std::vector<T> x;
      for (const auto& o : of) x.push_back(o[i]);
      for (; x.size() > 1; x.resize(x.size() / 2))
        for (std::size_t k = 0; k < x.size() / 2; ++k) x[k] = x[2 * k] + x[2 * k + 1];
      sum[i] = x[0];
    }
    meet();
    for (std::size_t i = 0; i < sum.size(); ++i) numbers[i] = sum[i];
    meet();
  }
  void later(std::function<void()> next) {
    if (pending_) pending_();
    pending_ = std::move(next);
    if (pending_) ++begun_;
  }
  template <class T> void later_for(int owner, view<T> numbers) {
    ++begun_for_one_;
    later([this, owner, numbers] {
      sum(numbers);
      if (owner != rank_) std::fill(numbers.begin(), numbers.end(), T(-7));
    });
  }
  meeting& all_;
  int rank_, begun_ = 0, begun_for_one_ = 0;
  std::function<void()> pending_;
};

// Trains copies of a model in threads; returns the models, or the error of one of them. `after` is called in each
// thread, and `own` changes the options of each.
template <class Model, Optimizer O, class Data, class Loss = loss::cross_entropy>
std::vector<Model> trained_by(const O& optimizer, const Model& net, int count, const Data& data,
                              const fit_options& options, std::string* why = nullptr,
                              std::vector<training_report>* reports = nullptr,
                              const std::function<void(Model&, thread_replicas&)>& after = {}, const Loss& loss = {},
                              const std::function<void(fit_options&, int rank)>& own = {}) {
  meeting all(count);
  std::vector<Model> nets(static_cast<std::size_t>(count), net);
  if (reports) reports->resize(nets.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      const auto i = static_cast<std::size_t>(rank);
      const auto self = std::make_shared<thread_replicas>(all, rank);
      fit_options o = options;
      o.replicas = self;
      if (rank != 0) o.observer = {};
      if (own) own(o, rank);
      try {
        auto report = fit(nets[i], data, loss, optimizer, o);
        if (reports) (*reports)[i] = report;
        if (after) after(nets[i], *self);
      } catch (const std::exception& e) {
        std::lock_guard lock(all.m);
        if (all.why.empty()) all.why = e.what();
      }
    });
  for (auto& t : threads) t.join();
  if (why) *why = all.why;
  else BOOST_TEST(all.why == "");
  return nets;
}

}  // namespace replicas_test
