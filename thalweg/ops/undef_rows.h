// Ends a use of elementwise.def.
#undef TW_PRIMITIVE1
#undef TW_PRIMITIVE2
#undef TW_PRIMITIVE3
#undef TW_UNARY
#undef TW_BINARY
#undef TW_TERNARY
