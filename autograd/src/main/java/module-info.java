import org.jspecify.annotations.NullMarked;

/** Reverse-mode differentiation over the stream of tensor operations. */
@NullMarked
module dev.starling.autograd {
    requires static transitive org.jspecify;
    requires transitive dev.starling.tensor;

    exports dev.starling.autograd;
}
