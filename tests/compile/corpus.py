"""All graphs of the corpus."""

import corpus_attention
import corpus_crossing
import corpus_indexed
import corpus_layers
import corpus_models
import corpus_modes
import corpus_mutation
import corpus_pointwise
import corpus_reductions
import corpus_unwritten
import corpus_usual
import corpus_views

GRAPHS = (
    *corpus_pointwise.GRAPHS,
    *corpus_reductions.GRAPHS,
    *corpus_views.GRAPHS,
    *corpus_indexed.GRAPHS,
    *corpus_mutation.GRAPHS,
    *corpus_unwritten.GRAPHS,
    *corpus_crossing.GRAPHS,
    *corpus_attention.GRAPHS,
    *corpus_layers.GRAPHS,
    *corpus_modes.GRAPHS,
    *corpus_models.GRAPHS,
    *corpus_usual.GRAPHS,
)
