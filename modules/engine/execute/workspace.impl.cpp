module lamina:workspace.impl;
import :core;
import :tensor;
import :workspace;
import lamina.std;

namespace lamina {

void workspace::release() noexcept {
  memory_ = {};
  ++taken_;
}
std::byte* workspace::reserve(std::size_t bytes) {
  if (memory_.bytes() < bytes) {
    release();  // its contents are no longer read
    memory_ = storage(bytes);
  }
  return static_cast<std::byte*>(memory_.data());
}

struct arena_pool::implementation {
  struct item {
    std::shared_ptr<workspace> is;
    bool lent = false;
  };
  std::mutex mutex;
  std::condition_variable given_back;
  std::vector<item> all;

  std::size_t bytes(bool lent_only) const {
    std::size_t n = 0;
    for (const auto& i : all) n += !lent_only || i.lent ? i.is->bytes() : 0;
    return n;
  }
  // `before` if possible, else the smallest free workspace that is large enough.
  item* free_one(std::size_t bytes, const std::shared_ptr<workspace>& before) {
    item* best = nullptr;
    for (auto& i : all) {
      if (i.lent || i.is->bytes() < bytes) continue;
      if (i.is == before) return &i;
      if (!best || i.is->bytes() < best->is->bytes()) best = &i;
    }
    return best;
  }
  // The largest free workspace, to be grown.
  item& largest_free() {
    item* best = nullptr;
    for (auto& i : all)
      if (!i.lent && (!best || i.is->bytes() > best->is->bytes())) best = &i;
    return best ? *best : all.emplace_back(item{std::make_shared<workspace>()});
  }
};

arena_pool::arena_pool(std::size_t limit) : limit_(limit), impl_(std::make_unique<implementation>()) {}
arena_pool::~arena_pool() = default;

std::shared_ptr<workspace> arena_pool::take(std::size_t bytes, const std::shared_ptr<workspace>& before) {
  if (limit_ && bytes > limit_) {
    text t;
    t << "out of memory: a run needs " << bytes << " bytes; the limit of its arena pool is " << limit_;
    throw out_of_memory(t.string(), bytes, static_cast<std::int64_t>(lent()), static_cast<std::int64_t>(limit_));
  }
  std::unique_lock lock(impl_->mutex);
  for (;;) {
    auto* one = impl_->free_one(bytes, before);
    if (!one) {
      if (limit_ && impl_->bytes(true) + bytes > limit_) {
        impl_->given_back.wait(lock);
        continue;
      }
      one = &impl_->largest_free();
      one->is->release();
      if (limit_ && impl_->bytes(false) + bytes > limit_)
        for (auto& i : impl_->all)
          if (!i.lent) i.is->release();
      one->is->reserve(bytes);
    }
    one->lent = true;
    return one->is;
  }
}
void arena_pool::give_back(const std::shared_ptr<workspace>& w) noexcept {
  {
    std::lock_guard lock(impl_->mutex);
    for (auto& i : impl_->all)
      if (i.is == w) i.lent = false;
  }
  impl_->given_back.notify_all();
}
std::size_t arena_pool::bytes() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->bytes(false);
}
std::size_t arena_pool::lent() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->bytes(true);
}
void arena_pool::trim() {
  std::lock_guard lock(impl_->mutex);
  for (auto& i : impl_->all)
    if (!i.lent) i.is->release();
}

}  // namespace lamina
