/** Reverse-mode differentiation over the stream of tensor operations. */
module dev.starling.autograd {
    requires transitive dev.starling.tensor;

    exports dev.starling.autograd;
}
