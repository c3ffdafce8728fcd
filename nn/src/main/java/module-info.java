/** Layers, losses, optimisers, data loading and training. */
module dev.starling.nn {
    requires transitive dev.starling.autograd;
    requires com.lmax.disruptor;
    requires java.net.http;

    exports dev.starling.nn.data;
}
