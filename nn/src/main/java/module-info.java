import org.jspecify.annotations.NullMarked;

/** Layers, losses, optimisers, data loading and training. */
@NullMarked
module dev.starling.nn {
    requires static transitive org.jspecify;
    requires transitive dev.starling.autograd;
    requires com.lmax.disruptor;
    requires de.siegmar.fastcsv;
    requires java.desktop;
    requires java.net.http;

    exports dev.starling.nn;
    exports dev.starling.nn.checkpoint;
    exports dev.starling.nn.data;
    exports dev.starling.nn.energy;
    exports dev.starling.nn.image;
    exports dev.starling.nn.layer;
    exports dev.starling.nn.loss;
    exports dev.starling.nn.model;
    exports dev.starling.nn.optim;
    exports dev.starling.nn.preprocess;
    exports dev.starling.nn.search;
    exports dev.starling.nn.serve;
    exports dev.starling.nn.train;
}
