// Sharded optimizer: each process keeps the slots of some parameters, and updates those.
module lamina:train.parts.impl;
import :core;
import :io;
import :parameter;
import :program;
import :rewriter;
import :tensor;
import :train;
import :train.replicas;
import lamina.std;

namespace lamina {

namespace detail {
[[noreturn]] void refuse_slot(std::string_view name, double holders, int count) {
  text t;
  raise(error_kind::state, t << "state `" << name << "` is in " << static_cast<std::int64_t>(holders) << " of " << count
                             << " processes; expected 1, as `shard_optimizer` leaves it, or all");
}
}  // namespace detail

/// Assigns contiguous items to blocks of nearly equal size: each item to the block that contains its middle.
std::vector<int> even_blocks(const std::vector<std::size_t>& bytes, int blocks) {
  const double all = static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::size_t(0)));
  std::vector<int> found;
  double before = 0;
  for (const auto n : bytes) {
    const double middle = before + static_cast<double>(n) / 2;
    found.push_back(std::min(static_cast<int>(middle * blocks / std::max(all, 1.0)), blocks - 1));
    before += static_cast<double>(n);
  }
  return found;
}

/// Tracks whether a value depends on none, one or several of a set of sources.
class made_of {
 public:
  explicit made_of(std::size_t nodes) : of_(nodes, none) {}
  static constexpr int none = -1, several = -2;
  int& operator[](std::int32_t node) { return of_[static_cast<std::size_t>(node)]; }
  void add(std::int32_t node, std::int32_t operand) {
    int& own = (*this)[node];
    const int other = (*this)[operand];
    if (own == none) own = other;
    else if (other != none && other != own) own = several;
  }

 private:
  std::vector<int> of_;
};

/// Ownership of optimizer slots.
class optimizer_parts {
 public:
  explicit optimizer_parts(replicas& all, std::string_view optimizer, std::size_t known_states)
      : all_(all), optimizer_(optimizer), known_states_(known_states) {}
  replicas& all() const { return all_; }

  /// Distributes parameters of the types of `like` over the processes, in contiguous parts of `order`, a list of
  /// parameter indices.
  void split(const std::vector<std::size_t>& order, const std::vector<value>& like) {
    std::vector<std::size_t> bytes;
    for (const auto i : order) bytes.push_back(like[i].type().bytes());
    const auto blocks = even_blocks(bytes, all_.count());
    owners_.resize(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) owners_[order[i]] = blocks[i];
  }
  int owner(std::size_t parameter) const { return owners_[parameter]; }
  bool is_own(std::size_t parameter) const { return owner(parameter) == all_.rank(); }
  /// Records the states that a parameter's update added to a program as its slots.
  void add_slots(const program& p, std::size_t first_state, std::size_t parameter, const parameter_store& store) {
    for (std::size_t i = first_state; i < p.states().size(); ++i) {
      const std::string& name = p.at(p.states()[i]).name;
      slot_of_.emplace(name, slots_.size());
      slots_.push_back({name, parameter, store.index(name) >= known_states_});
    }
  }
  bool has_slot(std::string_view name) const { return slot_of_.contains(name); }

  /// The part of an update for this process: its parameters and their slots, and all that belongs to no parameter.
  struct own_update {
    std::shared_ptr<program> update;
    bool joint = false;  // an update depends on gradients of other parameters, so every process needs all of them
  };
  /// `whole` updates `parameters` from the inputs `gradients`.
  own_update own_part(const program& whole, view<const value> parameters, view<const value> gradients) const {
    const auto updated = parameters_updated(whole, parameters);
    made_of of_gradients(whole.nodes().size()), of_slots(whole.nodes().size());
    for (std::size_t i = 0; i < gradients.size(); ++i) of_gradients[gradients[i].id().node] = static_cast<int>(i);
    for (const auto s : whole.states())
      if (const auto slot = slot_of_.find(whole.at(s).name); slot != slot_of_.end())
        of_slots[s] = static_cast<int>(slots_[slot->second].parameter);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(whole.nodes().size()); ++i)
      for (const auto operand : whole.at(i).inputs) of_gradients.add(i, operand.node), of_slots.add(i, operand.node);

    own_update made{std::make_shared<program>()};
    made.update->common_subexpressions = whole.common_subexpressions;
    rewriter copy(whole, *made.update);
    copy.copy_inputs();
    for (const auto& a : whole.assignments()) {
      const int parameter = updated[static_cast<std::size_t>(a.state)], found = of_slots[a.value.node];
      if (parameter != made_of::none) {
        if (found != made_of::none && found != parameter)
          refuse(whole.at(parameters[static_cast<std::size_t>(parameter)].id().node).name);
        const int by = of_gradients[a.value.node];
        if (by != made_of::none && by != parameter) made.joint = true;
        if (!is_own(static_cast<std::size_t>(parameter))) continue;
      }
      const value state = copy.reach({a.state, 0});
      made.update->assign(state, copy.reach(a.value));
    }
    return made;
  }

  /// Returns rank 0's value for a slot, or null.
  using given_slot = std::function<const any_tensor*(std::string_view name)>;
  /// Moves each slot to its owner only: the value of rank 0, else that of another process from an earlier training,
  /// else zeros.
  void distribute(parameter_store& store, const given_slot& given) const {
    enum : std::uint8_t { begins, of_first, of_another };
    std::vector<std::uint8_t> how(slots_.size(), begins);
    std::vector<double> owners;  // per slot: the number of processes that have it, and the sum of their ranks
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const parameter& p = *store.find(slots_[i].name);
      if (given(slots_[i].name) || (p.has_elements() && !slots_[i].is_new)) how[i] = of_first;
      else if (!slots_[i].is_new) how[i] = of_another;
      owners.push_back(p.has_elements() ? 1 : 0);
      owners.push_back(p.has_elements() ? all_.rank() : 0);
    }
    if (!how.empty()) all_.broadcast(how.data(), how.size());
    all_.sum(view<double>(owners));
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      parameter& p = *store.find(slots_[i].name);
      const int owner = owners_[slots_[i].parameter];
      if (how[i] == begins && owner == all_.rank()) p.assign(any_tensor(p.value().type()));
      if (how[i] == of_another && owners[2 * i] != 1) detail::refuse_slot(p.name(), owners[2 * i], all_.count());
      const int from = how[i] == begins ? owner : how[i] == of_first ? 0 : static_cast<int>(owners[2 * i + 1]);
      move(p, from, owner, all_.rank() == 0 ? given(p.name()) : nullptr);
    }
  }

  /// On rank 0: writes a slot of another process, while the others are in `hand_over`.
  void fetch(const parameter& slot, writer& out) const {
    ask(static_cast<std::int64_t>(slot_of_.find(slot.name())->second));
    std::vector<std::byte> piece(std::min(piece_bytes, slot.value().bytes()));
    each_piece(slot, [&](std::size_t, std::size_t n) {
      all_.send(owner_of(slot.name()), 0, piece.data(), n);
      out.write(piece.data(), n);
    });
  }
  void end_fetching() const { ask(-1); }
  /// On other ranks: sends the slots that rank 0 requests, until it needs no more.
  void hand_over(parameter_store& store) const {
    for (;;) {
      const std::int64_t requested = ask(-1);
      if (requested < 0) return;
      parameter& p = *store.find(slots_[static_cast<std::size_t>(requested)].name);
      const int owner = owner_of(p.name());
      each_piece(p, [&](std::size_t at, std::size_t n) {
        all_.send(owner, 0, owner == all_.rank() ? p.mutable_data() + at : nullptr, n);
      });
    }
  }

 private:
  struct slot {
    std::string name;
    std::size_t parameter;
    bool is_new;  // created for this training
  };
  static constexpr std::size_t piece_bytes = std::size_t(1) << 20;

  int owner_of(std::string_view name) const { return owners_[slots_[slot_of_.find(name)->second].parameter]; }
  std::int64_t ask(std::int64_t slot) const {
    all_.broadcast(&slot, sizeof slot);
    return slot;
  }
  template <class F> static void each_piece(const parameter& p, F f) {
    const std::size_t all = p.value().bytes();
    for (std::size_t at = 0; at < all; at += piece_bytes) f(at, std::min(piece_bytes, all - at));
  }
  // For each state, the parameter that it is or is a slot of.
  std::vector<int> parameters_updated(const program& whole, view<const value> parameters) const {
    std::vector<int> of(whole.nodes().size(), made_of::none);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      of[static_cast<std::size_t>(parameters[i].id().node)] = static_cast<int>(i);
    for (const auto s : whole.states())
      if (const auto found = slot_of_.find(whole.at(s).name); found != slot_of_.end())
        of[static_cast<std::size_t>(s)] = static_cast<int>(slots_[found->second].parameter);
    return of;
  }
  // Moves a slot to its owner, from the store or from `given`; the other processes free it.
  void move(parameter& p, int from, int owner, const any_tensor* given) const {
    const int rank = all_.rank();
    if (from != owner) {
      if (rank == owner && !p.has_elements()) p.assign(any_tensor(p.value().type()));
      std::byte* at = rank == owner                      ? p.mutable_data()
                      : rank == from && given != nullptr ? const_cast<std::byte*>(given->data())
                      : rank == from                     ? p.mutable_data()
                                                         : nullptr;
      all_.send(from, owner, at, p.value().bytes());
      p.changed();
    } else if (rank == owner && given) p.assign(*given);
    if (rank != owner) p.drop();
  }
  [[noreturn]] void refuse(std::string_view parameter) const {
    text t;
    detail::raise(error_kind::unsupported,
                  t << "fit: `" << optimizer_ << "` updates parameter `" << parameter
                    << "` with slots of another one, which `shard_optimizer` may keep in another process; "
                       "expected `.shard_optimizer = false`");
  }

  replicas& all_;
  std::string_view optimizer_;
  std::size_t known_states_;  // states in the store before the optimizer added any
  std::vector<int> owners_;   // rank that owns each parameter
  std::vector<slot> slots_;
  std::map<std::string, std::size_t, std::less<>> slot_of_;
};

void gather_slots(parameter_store& store, replicas& all) {
  std::vector<parameter*> slots;
  std::vector<double> owners;
  for (auto& p : store)
    if (p.role() == state_role::optimizer) {
      slots.push_back(&p);
      owners.push_back(p.has_elements() ? 1 : 0);
      owners.push_back(p.has_elements() ? all.rank() : 0);
    }
  all.sum(view<double>(owners));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    parameter& p = *slots[i];
    if (owners[2 * i] == all.count()) continue;
    if (owners[2 * i] != 1) detail::refuse_slot(p.name(), owners[2 * i], all.count());
    if (!p.has_elements()) p.assign(any_tensor(p.value().type()));
    std::vector<std::size_t> ends(static_cast<std::size_t>(all.count()), 0);
    std::fill(ends.begin() + static_cast<std::ptrdiff_t>(owners[2 * i + 1]), ends.end(), p.value().bytes());
    all.all_gather(p.mutable_data(), view<const std::size_t>(ends));
    p.changed();
  }
}

}  // namespace lamina
