/** Reverse-mode differentiation over the stream of tensor operations. */
module dev.starling.autograd {
    requires static transitive org.jspecify;
    requires transitive dev.starling.tensor;

    exports dev.starling.autograd;
}
