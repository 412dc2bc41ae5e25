// Printing, against what NumPy 2.4 prints for the same numbers.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

import lamina;

using namespace lamina;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();

// 0, 1, 2, ... in a shape.
template <class T> any_tensor counting(const shape& s) {
  vector<T> v(s.size());
  T next = 0;
  for (auto& x : v.writable()) x = next++;
  return any_tensor(v.memory(), {dtype_of<T>, s});
}

template <class T, class E> std::string printed(const tensor<T, E>& t) {
  std::ostringstream out;
  out << t;
  return out.str();
}
std::string printed(const any_tensor& t) { return t.print(); }

}  // namespace

BOOST_AUTO_TEST_SUITE(printing)

BOOST_AUTO_TEST_CASE(types_that_are_only_stored_print_as_their_numbers) {
  BOOST_CHECK_EQUAL(printed(vector<std::uint16_t>{1, 65535}), "[    1 65535]");
  BOOST_CHECK_EQUAL(printed(vector<std::uint64_t>{1, std::numeric_limits<std::uint64_t>::max()}),
                    "[                   1 18446744073709551615]");
  BOOST_CHECK_EQUAL(printed(vector<float8_e4m3fn>{0.5f, 448.f, -1.75f}), "[  0.5  448.    -1.75]");
  BOOST_CHECK_EQUAL(printed(vector<float8_e5m2>{float8_e5m2::narrow(infinity, false), 1.f}), "[inf  1.]");
  BOOST_CHECK_EQUAL(printed(vector<float4_e2m1>{0.5f, 6.f}), "[0.5 6. ]");
  BOOST_CHECK_EQUAL(printed(vector<int4>{-8, 7}), "[-8  7]");
  BOOST_CHECK_EQUAL(printed(vector<uint2>{3, 0}), "[3 0]");
  BOOST_CHECK_EQUAL(printed(scalar<float8_e8m0fnu>(8.f)), "8.0");
}

BOOST_AUTO_TEST_CASE(strings_print_in_quotes) {
  const std::vector<std::string> words{"a", "it's", "", "tab\t", "\xc3\xa4", "back\\"};
  BOOST_CHECK_EQUAL(printed(any_tensor::of_strings({2, 3}, words)),
                    "[['a' 'it\\'s' '']\n ['tab\\x09' '\xc3\xa4' 'back\\\\']]");
  BOOST_CHECK_EQUAL(printed(any_tensor::of_strings({}, std::vector<std::string>{"one"})), "one");
  BOOST_CHECK_EQUAL(printed(any_tensor(tensor_type{dtype::string, {2}})), "['' '']");
}

BOOST_AUTO_TEST_CASE(numbers_align_at_the_point) {
  BOOST_CHECK_EQUAL(printed(matrix<float>{{0, 0.1f}, {1.5f, 2}}), "[[0.  0.1]\n [1.5 2. ]]");
  BOOST_CHECK_EQUAL(printed(matrix<float>{{1, 2}, {3, 4}}), "[[1. 2.]\n [3. 4.]]");
  BOOST_CHECK_EQUAL(printed(vector<float>{-1, 10, 0.25f}), "[-1.   10.    0.25]");
  BOOST_CHECK_EQUAL(printed(vector<double>{1.0 / 3, 2.0 / 3, 100}), "[  0.33333333   0.66666667 100.        ]");
  BOOST_CHECK_EQUAL(printed(vector<double>{1e-5, 1}), "[1.e-05 1.e+00]");
  BOOST_CHECK_EQUAL(printed(vector<double>{1e10, -2.5e-300}), "[ 1.0e+010 -2.5e-300]");
  BOOST_CHECK_EQUAL(printed(vector<double>{123456789, 0.5}), "[1.23456789e+08 5.00000000e-01]");
  BOOST_CHECK_EQUAL(printed(vector<double>{99999999, 1e6}), "[99999999.  1000000.]");
  BOOST_CHECK_EQUAL(printed(vector<float>{1e6f, 2e6f}), "[1.e+06 2.e+06]");
  BOOST_CHECK_EQUAL(printed(vector<float>{2.6098165e-01f, 3.5438824e-12f, 8.0004408e+09f}),
                    "[2.6098165e-01 3.5438824e-12 8.0004408e+09]");
  BOOST_CHECK_EQUAL(printed(vector<float>{1, infinity, -infinity, not_a_number}), "[  1.  inf -inf  nan]");
  BOOST_CHECK_EQUAL(printed(vector<float>{infinity, not_a_number}), "[inf nan]");
  BOOST_CHECK_EQUAL(printed(vector<float>{1e-8f, -infinity}), "[1.e-08   -inf]");
}

BOOST_AUTO_TEST_CASE(half_precision) {
  BOOST_CHECK_EQUAL(printed(vector<float16>{0.1f, 1.f, 0.015625f}), "[0.1     1.      0.01563]");
  BOOST_CHECK_EQUAL(printed(vector<float16>{1000.f, 0.5f}), "[1.e+03 5.e-01]");
}

BOOST_AUTO_TEST_CASE(integers_and_truth_values) {
  BOOST_CHECK_EQUAL(printed(vector<std::int32_t>{1, -10, 100}), "[  1 -10 100]");
  BOOST_CHECK_EQUAL(printed(matrix<std::uint8_t>{{0, 255}, {7, 8}}), "[[  0 255]\n [  7   8]]");
  BOOST_CHECK_EQUAL(printed(vector<std::int64_t>{std::numeric_limits<std::int64_t>::min(), 0}),
                    "[-9223372036854775808                    0]");
  BOOST_CHECK_EQUAL(printed(matrix<bool>{{true, false}, {true, true}}), "[[ True False]\n [ True  True]]");
  BOOST_CHECK_EQUAL(printed(vector<bool>{true}), "[ True]");
}

BOOST_AUTO_TEST_CASE(scalars_stand_alone) {
  BOOST_CHECK_EQUAL(printed(scalar<float>(1.5f)), "1.5");
  BOOST_CHECK_EQUAL(printed(scalar<float>(2.f)), "2.0");
  BOOST_CHECK_EQUAL(printed(scalar<float>(0.1f)), "0.1");
  BOOST_CHECK_EQUAL(printed(scalar<float>(1e6f)), "1e+06");
  BOOST_CHECK_EQUAL(printed(scalar<double>(1e6)), "1000000.0");
  BOOST_CHECK_EQUAL(printed(scalar<double>(1e16)), "1e+16");
  BOOST_CHECK_EQUAL(printed(scalar<double>(-1.5e-7)), "-1.5e-07");
  BOOST_CHECK_EQUAL(printed(scalar<float>(not_a_number)), "nan");
  BOOST_CHECK_EQUAL(printed(scalar<std::int8_t>(std::int8_t(-3))), "-3");
  BOOST_CHECK_EQUAL(printed(scalar<bool>(true)), "True");
}

BOOST_AUTO_TEST_CASE(axes_are_nested) {
  BOOST_CHECK_EQUAL(printed(tensor<float, extents<2, 2, 2>>{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8.5f}}}),
                    "[[[1.  2. ]\n  [3.  4. ]]\n\n [[5.  6. ]\n  [7.  8.5]]]");
  BOOST_CHECK_EQUAL(printed(tensor<int, extents<1, 2, 1, 2>>{{{{1, 2}}, {{3, 4}}}}), "[[[[1 2]]\n\n  [[3 4]]]]");
  BOOST_CHECK_EQUAL(printed(matrix<float>(0, 3)), "[]");
}

BOOST_AUTO_TEST_CASE(long_lines_wrap_and_large_tensors_are_shortened) {
  BOOST_CHECK_EQUAL(printed(counting<float>({30})),
                    "[ 0.  1.  2.  3.  4.  5.  6.  7.  8.  9. 10. 11. 12. 13. 14. 15. 16. 17.\n"
                    " 18. 19. 20. 21. 22. 23. 24. 25. 26. 27. 28. 29.]");
  BOOST_CHECK_EQUAL(printed(counting<double>({2, 20})),
                    "[[ 0.  1.  2.  3.  4.  5.  6.  7.  8.  9. 10. 11. 12. 13. 14. 15. 16. 17.\n"
                    "  18. 19.]\n"
                    " [20. 21. 22. 23. 24. 25. 26. 27. 28. 29. 30. 31. 32. 33. 34. 35. 36. 37.\n"
                    "  38. 39.]]");
  BOOST_CHECK_EQUAL(printed(counting<float>({1000})).size(), 5072u);
  BOOST_CHECK_EQUAL(printed(counting<float>({1001})), "[   0.    1.    2. ...  998.  999. 1000.]");
  BOOST_CHECK_EQUAL(printed(counting<std::int32_t>({40, 40})),
                    "[[   0    1    2 ...   37   38   39]\n"
                    " [  40   41   42 ...   77   78   79]\n"
                    " [  80   81   82 ...  117  118  119]\n"
                    " ...\n"
                    " [1480 1481 1482 ... 1517 1518 1519]\n"
                    " [1520 1521 1522 ... 1557 1558 1559]\n"
                    " [1560 1561 1562 ... 1597 1598 1599]]");
  BOOST_CHECK_EQUAL(printed(counting<std::int32_t>({3, 500})),
                    "[[   0    1    2 ...  497  498  499]\n"
                    " [ 500  501  502 ...  997  998  999]\n"
                    " [1000 1001 1002 ... 1497 1498 1499]]");
  BOOST_CHECK_EQUAL(printed(counting<std::int16_t>({8, 7, 20})).size(), 1421u);
}

BOOST_AUTO_TEST_CASE(bfloat16_prints_its_few_digits) {
  BOOST_CHECK_EQUAL(printed(vector<bfloat16>{0.1f, 1.f, 3.140625f}), "[0.1  1.   3.14]");
}

BOOST_AUTO_TEST_SUITE_END()
