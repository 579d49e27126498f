#pragma once

// Passes: each takes a graph and gives back one that computes the same results with the same bits; those that recognise
// a pattern may round otherwise.
#include "thalweg/graph/graph.h"

namespace thalweg {

Graph prune(Graph graph);                   // drops what no result or update needs
Graph fold_constants(Graph graph);          // computes nodes over constants once, while compiling
Graph simplify(Graph graph);                // drops nodes that change nothing
Graph simplify_for_gradients(Graph graph);  // but not those that stop gradients: the graph is to be differentiated
Graph eliminate_common(Graph graph);        // computes equal nodes once
Graph fold_transposes(Graph graph);         // turns transposes into flags of the products that read them
Graph multiply_once(Graph graph);           // computes one row of a product whose rows are all alike
Graph pool_first(Graph graph);              // takes the largest before the relu, in 16 bits before the bias too
Graph reverse_first(Graph graph);           // walks backwards over bytes rather than over the floats made of them
Graph recognise_softmax(Graph graph);       // turns softmaxes in single ops into the op
Graph recognise_attention(Graph graph);     // turns attention in single ops into the op that never holds all scores
Graph recognise_head(Graph graph);          // turns products with large logits into losses that never hold all of them
Graph narrow_values(Graph graph);           // lets products run in 16 bits, if the graph is to be so precise
Graph pool_batch_norms(Graph graph);        // pools batch norms as they are computed
Graph relu_batch_norms(Graph graph);        // takes relus of batch norms as they are computed
Graph heads_in_place(Graph graph);          // lets attention read and write heads where products have them
Graph view_parts(Graph graph);              // turns splits into views where the parts lie in one stretch
Graph fuse(Graph graph);                    // joins elementwise nodes into programs that walk their operands once
Graph fuse_reductions(Graph graph);         // joins a program with the reduction that reads it

}  // namespace thalweg
