// Tensors with invalid extents, elements or assignments.
import lamina;
using namespace lamina;

// case: element_assigned
// expect: expression is not assignable
void element_assigned(matrix<float>& m) {
#ifdef BAD
  m(0, 0) = 1;
#else
  m.writable(0, 0) = 1;
#endif
}

// case: row_assigned
// expect: no viable overloaded '='
void row_assigned(matrix<float>& m, const vector<float>& row) {
#ifdef BAD
  m[0] = row;
#else
  assign_row(m, 0, row);
#endif
}

// case: extent_below_zero
// expect: non-constexpr function 'extent_below_zero' cannot be used in a constant expression
namespace extent_below_zero {
#ifdef BAD
tensor<float, extents<-5, 3>> t;
#else
tensor<float, extents<5, 3>> t;
#endif
}  // namespace extent_below_zero

// case: extents_one_name
// expect: no matching constructor for initialization of 'tensor<float, extents<"T", "T">>'
namespace extents_one_name {
#ifdef BAD
tensor<float, extents<"T", "T">> t(matrix<float, 128, 64>{});
#else
tensor<float, extents<"T", "T">> t(matrix<float, 64, 64>{});
#endif
}  // namespace extents_one_name

// case: dynamic_element
// expect: dynamic: it holds float32 of rank 2; got float64[?x?]
// within: 13 lines
namespace dynamic_element {
#ifdef BAD
dynamic<float, 2> any = matrix<double>(2, 3);
#else
dynamic<float, 2> any = matrix<float>(2, 3);
#endif
}  // namespace dynamic_element

// case: growable_item
// expect: growable: its items are float32 of rank 1; got float64 of rank 1
void growable_item(growable<float, 1>& all) {
#ifdef BAD
  all.push(vector<double>(3));
#else
  all.push(vector<float>(3));
#endif
}
