/** Benchmarks that compare Starling with PyTorch, raw oneDNN, DJL, Open MPI, Gloo and gRPC, for {@code starling bench}. */
module dev.starling.jmh {
    requires ai.djl.api;
    requires dev.starling.distributed;
    requires dev.starling.nn;
    requires info.picocli;
    requires io.grpc;
    requires io.grpc.netty.shaded;
    requires io.grpc.stub;
    requires java.management;
    requires jdk.jfr;
    requires jdk.unsupported;
    requires jmh.core;
    requires org.bytedeco.dnnl;
    requires org.bytedeco.openblas;
    requires org.bytedeco.pytorch;

    opens dev.starling.jmh to info.picocli;
    opens dev.starling.jmh.cluster to info.picocli;
    opens dev.starling.jmh.gpu to info.picocli;
    opens dev.starling.jmh.serving to info.picocli;
    opens dev.starling.jmh.startup to info.picocli;
}
