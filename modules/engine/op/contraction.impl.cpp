module lamina:op.contraction.impl;
import :core;
import :dtype;
import :op;
import :op.attention;
import :op.contraction;
import :op.elementwise;
import :op.extents;
import :op.index;
import :op.linear;
import :op.reduce;
import :op.shape;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

using namespace detail;

namespace {

// ---- equations ------------------------------------------------------------------------------------------------------

using labels = std::vector<int>;  // letters, or from `dots` on the axes of `...`, counted from the right
constexpr int dots = 256;

bool has(const labels& all, int label) { return std::find(all.begin(), all.end(), label) != all.end(); }
void add_new(labels& all, int label) {
  if (!has(all, label)) all.push_back(label);
}

// An operand or a partial product, with the labels of its axes.
struct term {
  value x;
  labels of;
  int axis(int label) const { return static_cast<int>(std::find(of.begin(), of.end(), label) - of.begin()); }
};

struct equation {
  std::string_view text_;
  std::vector<std::string> operands;
  std::string result;
  bool arrow = false;

  [[noreturn]] void refuse(error_kind kind, std::string_view why) const {
    text t;
    raise(kind, t << "einsum: " << why << ": \"" << text_ << "\"");
  }
  explicit equation(std::string_view all) : text_(all) {
    std::string plain;
    for (char c : all)
      if (c != ' ' && c != '\t' && c != '\n') plain += c;
    std::string_view left = plain;
    if (const auto at = plain.find("->"); at != std::string::npos) {
      arrow = true;
      result = plain.substr(at + 2);
      left = left.substr(0, at);
    }
    for (std::size_t at = 0;;) {
      const auto comma = left.find(',', at);
      operands.emplace_back(left.substr(at, comma == left.npos ? left.npos : comma - at));
      if (comma == left.npos) break;
      at = comma + 1;
    }
  }
  // The labels of a part of an equation, whose `...` has `of_dots` axes.
  labels labels_of(std::string_view part, int of_dots) const {
    labels all;
    bool seen = false;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const char c = part[i];
      if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) all.push_back(c);
      else if (part.substr(i, 3) == "..." && !seen) {
        seen = true;
        i += 2;
        for (int k = of_dots; k-- > 0;) all.push_back(dots + k);
      } else refuse(error_kind::value, "expected letters, one `...` per operand, `,` and one `->`");
    }
    return all;
  }
  static int letters(std::string_view part) {
    return static_cast<int>(part.size()) - (part.find("...") != part.npos ? 3 : 0);
  }
};

// ---- terms ----------------------------------------------------------------------------------------------------------

term summed(const term& t, const std::function<bool(int)>& away) {
  axes over;
  labels rest;
  for (std::size_t i = 0; i < t.of.size(); ++i) {
    if (away(t.of[i])) over.values[over.count++] = static_cast<int>(i);
    else rest.push_back(t.of[i]);
  }
  return over.count ? term{reduce_sum(t.x, reduce_attributes{.axes = over}), rest} : t;
}
// The diagonal over axes with the same label.
term diagonal(term t) {
  for (std::size_t i = 0; i < t.of.size(); ++i)
    for (std::size_t k = t.of.size(); --k > i;)
      if (t.of[k] == t.of[i]) {
        const int first = static_cast<int>(i), second = static_cast<int>(k);
        t.x = reduce_sum(where(positions_along(t.x, first) == positions_along(t.x, second), t.x, 0),
                         reduce_attributes{.axes = axes(second)});
        t.of.erase(t.of.begin() + second);
      }
  return t;
}
value permuted(const term& t, const labels& to) {
  axes order;
  bool same = true;
  for (int label : to) {
    same = same && t.axis(label) == order.count;
    order.values[order.count++] = t.axis(label);
  }
  return same ? t.x : value(permute(t.x, order));
}
labels joined(std::initializer_list<labels> parts) {
  labels all;
  for (const labels& p : parts) all.insert(all.end(), p.begin(), p.end());
  return all;
}
int count_of(const labels& l) { return static_cast<int>(l.size()); }

// The product of two terms, summed over labels that are no longer needed.
term product(const term& left, const term& right, const std::function<bool(int)>& needed) {
  const term a = summed(left, [&](int l) { return !needed(l) && !has(right.of, l); }),
             b = summed(right, [&](int l) { return !needed(l) && !has(left.of, l); });
  labels batch, inner, rows, columns;
  for (int l : a.of) (!has(b.of, l) ? rows : needed(l) ? batch : inner).push_back(l);
  for (int l : b.of)
    if (!has(a.of, l)) columns.push_back(l);
  std::vector<int> single(batch.size(), 1);
  const auto grouped = [&](const term& t, const labels& first, const labels& second) {
    auto groups = single;
    groups.push_back(count_of(first));
    groups.push_back(count_of(second));
    return merged(permuted(t, joined({batch, first, second})), groups);
  };
  const value y = inner.empty() ? value(grouped(a, rows, {}) * grouped(b, {}, columns))
                                : value(matmul(grouped(a, rows, inner), grouped(b, inner, columns)));
  std::vector<extent_value> to;
  for (int l : batch) to.push_back(broadcast_extent(y.owner(), extent_of(a.x, a.axis(l)), extent_of(b.x, b.axis(l))));
  for (int l : rows) to.push_back(extent_of(a.x, a.axis(l)));
  for (int l : columns) to.push_back(extent_of(b.x, b.axis(l)));
  return {reshaped(y, to), joined({batch, rows, columns})};
}

// The terms of an equation: takes diagonals, and drops axes of extent 1 that broadcast.
std::vector<term> terms_of(const equation& e, view<const value> operands, int& of_dots) {
  std::vector<term> all;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string& part = e.operands[i];
    const bool open = part.find("...") != std::string::npos;
    const int rank = operands[i].shape().rank, rest = rank - equation::letters(part);
    if (rest < 0 || (!open && rest > 0)) {
      text t;
      t << "operand " << static_cast<std::int64_t>(i) << " has " << rank << " axes; expected `" << part << "`";
      e.refuse(error_kind::shape, t.view());
    }
    if (open) of_dots = std::max(of_dots, rest);
    all.push_back({operands[i], e.labels_of(part, rest)});
  }
  std::map<int, std::int64_t> extents;
  for (const term& t : all)
    for (std::size_t k = 0; k < t.of.size(); ++k) {
      const dim n = t.x.shape()[static_cast<int>(k)];
      if (!n.is_number() || n.code == 1) continue;
      const auto [known, fresh] = extents.emplace(t.of[k], n.code);
      if (!fresh && known->second != n.code) {
        text why;
        why << "axes with the same letter have " << known->second << " and " << n.code << " positions";
        e.refuse(error_kind::shape, why.view());
      }
    }
  for (term& t : all) {
    labels squeezed;
    for (std::size_t k = 0; k < t.of.size(); ++k)
      if (t.x.shape()[static_cast<int>(k)] == dim(1) && extents.contains(t.of[k])) add_new(squeezed, t.of[k]);
    t = diagonal(summed(t, [&](int l) { return has(squeezed, l); }));
  }
  return all;
}
labels result_of(const equation& e, const std::vector<term>& terms, int of_dots) {
  labels given;
  std::map<int, int> times;
  for (const std::string& part : e.operands)
    for (char c : part) ++times[c];
  for (const term& t : terms)
    for (int l : t.of) add_new(given, l);
  labels all;
  if (!e.arrow) {
    for (int k = of_dots; k-- > 0;) all.push_back(dots + k);
    for (const auto& [letter, n] : times)
      if (n == 1 && letter != '.') all.push_back(letter);
    return all;
  }
  for (int l : e.labels_of(e.result, of_dots)) {
    if (has(all, l) || !has(given, l))
      e.refuse(error_kind::value, "the result names an axis twice, or one that no operand has");
    all.push_back(l);
  }
  return all;
}

}  // namespace

value einsum(std::string_view text, view<const value> operands, const origin&) {
  const equation e(text);
  if (e.operands.size() != operands.size() || operands.empty())
    e.refuse(error_kind::value, "the number of operands does not match the equation");
  int of_dots = 0;
  const std::vector<term> terms = terms_of(e, operands, of_dots);
  const labels result = result_of(e, terms, of_dots);
  term all = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i)
    all = product(all, terms[i], [&](int l) {
      return has(result, l) || std::any_of(terms.begin() + static_cast<std::ptrdiff_t>(i) + 1, terms.end(),
                                           [&](const term& t) { return has(t.of, l); });
    });
  all = summed(all, [&](int l) { return !has(result, l); });
  return permuted(all, result);
}

// ---- matrices -------------------------------------------------------------------------------------------------------

value matmul_any(const value& a, const value& b, const origin&) {
  const bool row = a.shape().rank == 1, column = b.shape().rank == 1;
  const value left = row ? value(unsqueeze(a, axes(0))) : a, right = column ? value(unsqueeze(b, axes(1))) : b;
  value y = matmul(left, right);
  if (column) y = squeeze(y, axes(-1));
  return row ? value(squeeze(y, axes(column ? -1 : -2))) : y;
}
value matmul_integer(const value& a, const value& b, const std::optional<value>& a_zero,
                     const std::optional<value>& b_zero, const origin&) {
  value left = converted(a, dtype::int32), right = converted(b, dtype::int32);
  for (const value* v : {&a, &b})
    if (v->type().element != dtype::int8 && v->type().element != dtype::uint8) {
      text t;
      raise(error_kind::type, t << "matmul_integer: takes int8 or uint8, not " << v->type().element);
    }
  if (a_zero) {
    const value zero = converted(*a_zero, dtype::int32);
    left = left - (zero.shape().rank == 1 && a.shape().rank > 1 ? value(unsqueeze(zero, axes(1))) : zero);
  }
  if (b_zero) right = right - converted(*b_zero, dtype::int32);
  return matmul_any(left, right);
}

value det(const value& x, const origin&) {
  const auto& s = x.shape();
  const int rank = s.rank;
  constexpr std::int64_t max = 64;
  if (rank < 2 || !s[rank - 1].is_number() || s[rank - 1] != s[rank - 2] || s.at(rank - 1) > max) {
    text t;
    raise(error_kind::shape,
          t << "det: square matrices [..., N, N] of a known N up to " << max << " are expected, not " << s);
  }
  const auto entry = [&](const value& rows, int axis, std::int64_t from, std::int64_t to) {
    return value(slice(rows, slice_attributes{from, to, axis, 1}));
  };
  const std::int64_t n = s.at(rank - 1);
  if (n == 0) return reduce_prod(x, reduce_attributes{.axes = axes(rank - 2, rank - 1)});
  value rest = x, product;
  for (std::int64_t left = n; left > 0; --left) {
    const value column = entry(rest, rank - 1, 0, 1);            // [..., left, 1]
    const value at = argmax(abs(column), {rank - 2, true});      // [..., 1, 1]
    const value chosen = positions_along(rest, rank - 2) == at;  // [..., left, 1]
    const value row = reduce_sum(where(chosen, rest, 0), reduce_attributes{.axes = axes(rank - 2), .keepdim = true});
    const value pivot = entry(row, rank - 1, 0, 1),
                term = pivot * where(at == 0, converted(at * 0 + 1, x.type().element), -1);
    product = product.empty() ? term : value(product * term);
    if (left == 1) break;
    const value first = entry(rest, rank - 2, 0, 1);
    const value others = where(entry(chosen, rank - 2, 1, left), first, entry(rest, rank - 2, 1, left));
    const value factor = entry(others, rank - 1, 0, 1) / where(pivot == 0, 1, pivot);
    rest = entry(others, rank - 1, 1, left) - factor * entry(row, rank - 1, 1, left);
  }
  return squeeze(product, axes(rank - 2, rank - 1));
}

}  // namespace lamina
