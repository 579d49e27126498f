// Indices, ids and labels that point outside.
#include "tests/errors/mistake.h"

namespace {

using enum tw::ErrorCode;

// clang-format off
const std::vector<Mistake> indices{
    {"gather_beyond_the_last_row",
     [] { tw::gather(tw::zeros({4, 2}), tw::tensor({{0, 1}, {4, 2}})); },
     out_of_range, "gather", {"expected 0 to 3", "index 4 at position [1, 0]", "check the indices"}},
    {"gather_of_a_negative_index",
     [] { tw::gather(tw::zeros({4, 2}), tw::tensor({-1})); },
     out_of_range, "gather", {"expected 0 to 3", "index -1 at position [0]"}},
    {"gather_along_an_inner_axis",
     [] { tw::gather(tw::zeros({4, 2}), tw::tensor({2}), {.axis = 1}); },
     out_of_range, "gather", {"expected 0 to 1", "index 2 at position [0]"}},
    {"gather_from_an_empty_tensor",
     [] { tw::gather(tw::zeros({0, 2}), tw::tensor({0})); },
     out_of_range, "gather", {"index 0 at position [0]", "empty"}},
    {"embedding_lookup_of_an_unknown_word",
     [] {
       const tw::Variable table(tw::zeros({100, 8}), {.name = "embedding"});
       tw::embedding_lookup(table, tw::tensor({{3, 100}}));
     },
     out_of_range, "embedding_lookup", {"expected 0 to 99", "index 100 at position [0, 1]"}},
    {"embedding_of_an_unknown_word_in_a_compiled_step",
     [] {
       tw::nn::Embedding words({.input_dim = 10, .output_dim = 4, .name = "words"});
       tw::optim::Adam adam({.sparse = tw::optim::lazy});
       const auto step = tw::function([&](const tw::Tensor& ids) {
         tw::GradientTape tape;
         const tw::Tensor loss = tw::reduce_mean(tw::square(words(ids)));
         adam.apply(tape.gradient(loss, words.trainable_variables()), words.trainable_variables());
         return loss;
       });
       step(tw::tensor({1, 2, 2}));
       step(tw::tensor({1, 10, 2}));
     },
     out_of_range, "embedding_lookup", {"expected 0 to 9", "index 10 at position [1]", "layer \"words\""}},
    {"gather_nd_outside_of_the_second_axis",
     [] { tw::gather_nd(tw::zeros({4, 2}), tw::tensor({{3, 1}, {0, 2}})); },
     out_of_range, "gather_nd", {"expected 0 to 1", "index 2 at position [1, 1]"}},
    {"gather_nd_with_vectors_that_are_too_long",
     [] { tw::gather_nd(tw::zeros({4, 2}), tw::zeros({5, 3}, tw::i32)); },
     invalid_argument, "gather_nd", {"expected index vectors of at most 2 entries for [4, 2]", "got 3"}},
    {"scatter_nd_outside",
     [] { tw::scatter_nd(tw::tensor({{0}, {5}}), tw::ones({2}), {5}); },
     out_of_range, "scatter_nd", {"expected 0 to 4", "index 5 at position [1, 0]"}},
    {"scatter_nd_of_updates_that_do_not_fit",
     [] { tw::scatter_nd(tw::tensor({{0}, {4}}), tw::ones({3}), {5}); },
     invalid_argument, "scatter_nd", {"expected updates [2]", "got [3]", "every index vector"}},
    {"tensor_scatter_nd_update_outside",
     [] { tw::tensor_scatter_nd_update(tw::zeros({5}), tw::tensor({{-2}}), tw::ones({1})); },
     out_of_range, "tensor_scatter_nd_update", {"expected 0 to 4", "index -2"}},
    {"segment_sum_of_ids_that_do_not_ascend",
     [] { tw::segment_sum(tw::zeros({3, 2}), tw::tensor({0, 2, 1})); },
     invalid_argument, "segment_sum",
     {"expected ids that ascend", "got 1 after 2 at position 2", "unsorted_segment_sum"}},
    {"segment_mean_of_a_negative_id",
     [] { tw::segment_mean(tw::zeros({2, 2}), tw::tensor({-1, 0})); },
     out_of_range, "segment_mean", {"expected ids of 0 or more", "got -1 at position 0", "unsorted_segment_sum"}},
    {"unsorted_segment_sum_of_an_id_beyond_the_segments",
     [] { tw::unsorted_segment_sum(tw::zeros({2, 2}), tw::tensor({0, 3}), 3); },
     out_of_range, "unsorted_segment_sum", {"expected 0 to 2", "index 3 at position [1]"}},
    {"a_label_beyond_the_classes",
     [] { tw::sparse_softmax_cross_entropy(tw::tensor({0, 10, 3}), tw::zeros({3, 10})); },
     out_of_range, "sparse_softmax_cross_entropy",
     {"expected 0 to 9 for 10 classes", "label 10 at [1]", "count the classes from 0"}},
    {"boolean_mask_of_another_length",
     [] { tw::boolean_mask(tw::zeros({3, 2}), tw::tensor({true, false})); },
     invalid_argument, "boolean_mask", {"expected a mask that fits x [3, 2] at axis 0", "got [2]"}},
    {"a_place_outside_in_strided_slice",
     [] { tw::strided_slice(tw::zeros({3}), {.begin = {3}, .end = {4}, .shrink_axis_mask = 1}); },
     invalid_argument, "strided_slice", {"expected a place from -3 to 2 in [3]", "got 3"}},
    {"rows_of_a_sparse_gradient_that_do_not_fit_their_indices",
     [] { tw::Gradient(tw::zeros({2, 4}), tw::tensor({0, 1, 2}), {10, 4}); },
     invalid_argument, "gradient", {"expected values [n, ...] and indices [n]", "got values [2, 4] and indices [3]"}},
    {"integer_division_by_zero",
     [] { tw::floordiv(tw::tensor({1, 2}), tw::tensor({1, 0})); },
     invalid_argument, "floordiv", {"expected divisors other than 0", "got 0", "no divisor is zero"}},
};
MISTAKES(indices, indices);
// clang-format on

}  // namespace
