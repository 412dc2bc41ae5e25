module lamina:data.loader.impl;
import :core;
import :data.batch;
import :data.loader;
import :data.set;
import :random;
import :shape;
import lamina.std;

namespace lamina {

sample_error::sample_error(const std::string& what, std::int64_t index, std::string location, std::exception_ptr cause)
    : value_error(what), index_(index), location_(std::move(location)), cause_(std::move(cause)) {}
sample_error::~sample_error() = default;
sample_checker::~sample_checker() = default;

namespace {

// The exception thrown when a sample is read, or null. `shapes` receives the shapes of its fields.
std::exception_ptr failure_of(const sample_source& source, std::int64_t i, std::vector<shape>& shapes) {
  shapes.clear();
  try {
    source.sample(
        i,
        [](void* state, view<const detail::field_view> fields) {
          for (const auto& f : fields) static_cast<std::vector<shape>*>(state)->push_back(f.type.dims);
        },
        &shapes);
  } catch (...) { return std::current_exception(); }
  return nullptr;
}

// Message about a sample that cannot be read.
std::string unreadable(const reading& how, const sample_source& source, std::int64_t i,
                       const std::exception_ptr& cause) {
  std::string why = "an exception that is not a std::exception";
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& e) {
    why = e.what();
    // Messages for exceptions from outside the library already name the sample.
    constexpr std::string_view separator = " cannot be read: ";
    if (const auto at = why.find(separator); why.starts_with("data set: sample ") && at != why.npos)
      why.erase(0, at + separator.size());
  } catch (...) {}
  const std::string place = source.location(i);
  text t;
  detail::put_sample(t, i, why.find(place) == why.npos ? place : std::string(), how.samples);
  return (t << " cannot be read: " << why).string();
}

std::string by(const reading& how, const std::string& what) { return std::string(how.reader) + ": " + what; }

void check_range(std::string_view reader, std::string_view option, std::int64_t value, std::int64_t least,
                 std::int64_t max) {
  if (value >= least && value <= max) return;
  text t;
  t << reader << ": " << option << " is " << value << "; expected " << least << " to " << max;
  detail::raise(error_kind::value, t);
}

}  // namespace

left_out_sample left_out_for(const reading& how, const sample_batch& batch, const sample_problem& wrong) {
  text t;
  const std::int64_t i = batch.indices()[wrong.position];
  detail::put_sample(t, i, batch.location(wrong.position, wrong.field, wrong.element), how.samples);
  return {i, (t << ": " << wrong.why).string()};
}

void raise_problem(const reading& how, const sample_batch& batch, const sample_problem& wrong) {
  std::exception_ptr cause;
  try {
    detail::raise(wrong.kind, wrong.why);
  } catch (...) { cause = std::current_exception(); }
  const auto [index, why] = left_out_for(how, batch, wrong);
  throw sample_error(by(how, why), index, batch.location(wrong.position, wrong.field, wrong.element), cause);
}

struct batch_loader::implementation {
  // A batch and the outcome of reading it.
  struct slot {
    sample_batch batch;
    std::vector<left_out_sample> left_out;
    std::exception_ptr failure;
    bool ready = false;
  };

  implementation(sample_source from, const reading& o) : source(std::move(from)), options(o) {
    check_range(o.reader, "threads", o.threads, 0, 1024);
    check_range(o.reader, "ahead", o.ahead, 1, 1 << 16);
    if (o.threads > 0) options.pool = nullptr;  // the pool belongs to the loop
    // The loop uses one batch while the others are loaded.
    slots = std::vector<slot>(o.threads == 0 ? 1 : static_cast<std::size_t>(o.ahead) + 1);
    try {
      for (int i = 0; i < o.threads; ++i) threads.emplace_back([this] { work(); });
    } catch (const std::system_error& e) {
      end();
      detail::raise(error_kind::resource,
                    std::string(o.reader) + ": a thread cannot be started: " + e.code().message());
    }
  }
  ~implementation() { end(); }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;

  void end() {
    {
      const std::lock_guard lock(mutex);
      stopped = true;
    }
    not_full.notify_all();
    for (auto& t : threads) t.join();
    threads.clear();
  }

  // Reads a batch into a slot; an exception is stored for the loop.
  void load(slot& s, view<const std::int64_t> indices) const {
    const detail::epoch_scope scope(epoch);
    s.left_out.clear();
    s.failure = nullptr;
    try {
      try {
        s.batch.read(source, indices, options.pad, options.pool);
      } catch (...) { read_without_failures(s, indices, std::current_exception()); }
      if (options.checks) leave_out_invalid(s);
      if (options.change && s.batch.size() > 0) options.change(s.batch, epoch, indices[0]);
    } catch (...) { s.failure = std::current_exception(); }
  }
  // After an error: finds the samples that cannot be read, and reads the others or raises the error of the first one.
  // Without padding, samples whose shapes differ from the first readable one are skipped too.
  void read_without_failures(slot& s, view<const std::int64_t> indices, const std::exception_ptr& why) const {
    std::vector<std::int64_t> whole;
    std::vector<shape> shapes, first;
    for (auto i : indices) {
      const auto failure = failure_of(source, i, shapes);
      if (failure) {
        const std::string what = unreadable(options, source, i, failure);
        if (options.on_error == sample_failure::raise)
          throw sample_error(by(options, what), i, source.location(i), failure);
        s.left_out.push_back({i, what});
        continue;
      }
      if (whole.empty()) first = shapes;
      if (options.on_error == sample_failure::skip && !options.pad && shapes != first) {
        s.left_out.push_back({i, of_another_shape(i, view<const shape>(shapes), whole[0], view<const shape>(first))});
        continue;
      }
      whole.push_back(i);
    }
    if (s.left_out.empty()) std::rethrow_exception(why);  // error of the batch as a whole
    s.batch.read(source, view<const std::int64_t>(whole), options.pad, options.pool);
  }
  std::string of_another_shape(std::int64_t i, view<const shape> shapes, std::int64_t other,
                               view<const shape> expected) const {
    std::size_t k = 0;
    while (shapes[k] == expected[k]) ++k;
    text t;
    detail::put_sample(t, i, source.location(i), options.samples)
        << ": field " << k << " is " << shapes[k] << ", and " << expected[k] << " in ";
    return detail::put_sample(t, other, source.location(other)).string();
  }
  // Skips samples that were read but cannot be used, or raises the first fault.
  void leave_out_invalid(slot& s) const {
    const bool skips = options.on_error == sample_failure::skip;
    const auto wrong = options.checks->problems(s.batch, skips);
    if (wrong.empty()) return;
    if (!skips) raise_problem(options, s.batch, wrong[0]);
    std::vector<std::int64_t> whole;
    for (std::size_t k = 0, w = 0; k < s.batch.indices().size(); ++k)
      if (const auto i = s.batch.indices()[k]; w < wrong.size() && wrong[w].position == k)
        s.left_out.push_back(left_out_for(options, s.batch, wrong[w++]));
      else whole.push_back(i);
    s.batch.read(source, view<const std::int64_t>(whole), options.pad, options.pool);
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      not_full.wait(lock, [this] { return stopped || (claimed < last && claimed < free_until()); });
      if (stopped) return;
      const std::int64_t claimed_position = claimed++;
      slot& s = slots[static_cast<std::size_t>(claimed_position) % slots.size()];
      ++busy;
      lock.unlock();
      load(s, plan[claimed_position]);
      lock.lock();
      --busy;
      s.ready = true;
      loaded.notify_all();
    }
  }
  // End of the batches that may be loaded: the loop still uses the one that it took last.
  std::int64_t free_until() const {
    return std::max<std::int64_t>(taken - 1, 0) + static_cast<std::int64_t>(slots.size());
  }

  void begin(batch_plan batches, std::int64_t number) {
    std::unique_lock lock(mutex);
    last = 0;
    loaded.wait(lock, [this] { return busy == 0; });
    epoch = number;
    plan = std::move(batches);
    for (auto& s : slots) s.ready = false;
    taken = claimed = 0;
    last = plan.size();
    not_full.notify_all();
  }

  // Locks against the reader threads, if any.
  std::unique_lock<std::mutex> hold() const {
    return threads.empty() ? std::unique_lock<std::mutex>() : std::unique_lock(mutex);
  }

  // Slot of the next batch, after loading; null at the end.
  slot* take() {
    auto lock = hold();
    if (taken > 0 && taken <= last) slots[static_cast<std::size_t>(taken - 1) % slots.size()].ready = false;
    if (taken >= last) {
      taken = last + 1;
      return nullptr;
    }
    slot& s = slots[static_cast<std::size_t>(taken++) % slots.size()];
    const auto begin = std::chrono::steady_clock::now();
    if (threads.empty()) load(s, plan[taken - 1]);
    else {
      not_full.notify_all();
      loaded.wait(lock, [&s] { return s.ready; });
    }
    done.waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!s.left_out.empty() && done.skipped == 0) done.first_skipped = s.left_out[0].why;
    done.skipped += static_cast<std::int64_t>(s.left_out.size());
    current = &s;
    if (s.failure) {
      last = 0;  // the epoch ends here
      std::rethrow_exception(std::exchange(s.failure, nullptr));
    }
    if (s.batch.size()) ++done.batches;
    done.samples += s.batch.size();
    return &s;
  }

  sample_source source;
  reading options;
  mutable std::mutex mutex;
  std::condition_variable not_full, loaded;
  std::vector<slot> slots;
  batch_plan plan;
  std::int64_t epoch = 0;
  std::int64_t taken = 0, claimed = 0, last = 0;
  const slot* current = nullptr;  // slot that the loop uses
  int busy = 0;
  bool stopped = false;
  loader_report done;
  std::vector<std::thread> threads;
};

batch_loader::batch_loader(sample_source source, const reading& how)
    : impl_(new implementation(std::move(source), how)) {}
batch_loader::~batch_loader() = default;

void batch_loader::begin(batch_plan plan, std::int64_t epoch) { impl_->begin(std::move(plan), epoch); }

const sample_batch* batch_loader::next() {
  const implementation::slot* s = impl_->take();
  return s ? &s->batch : nullptr;
}

view<const left_out_sample> batch_loader::left_out() const {
  if (!impl_->current) return {};
  return view<const left_out_sample>(impl_->current->left_out);
}

const reading& batch_loader::how() const { return impl_->options; }
const sample_source& batch_loader::source() const { return impl_->source; }

loader_report batch_loader::report() const {
  const auto lock = impl_->hold();
  return impl_->done;
}

loader::loader(const loader_options& o, const sample_source& source)
    : options_(o),
      batches_(source.filled_with(view<const std::optional<double>>(o.fill)), {o.threads, o.ahead, o.pad, o.on_error}) {
  check_range("loader", "batch", o.batch, 1, std::numeric_limits<std::int64_t>::max());
}

void loader::begin(std::int64_t epoch) {
  const batch_options o{options_.batch, options_.drop_last, options_.pad, options_.bucket_by};
  const std::int64_t size = batches_.source().size();
  batches_.begin(options_.shuffle ? batch_plan(permutation(size, options_.seed, epoch), o) : batch_plan(size, o),
                 epoch);
}

const sample_batch* loader::next() {
  for (;;) {
    const sample_batch* b = batches_.next();
    if (!b || b->size()) return b;  // skips batches whose samples were all skipped
  }
}

}  // namespace lamina
