/** Benchmarks beside PyTorch and raw oneDNN, behind {@code starling bench}. */
module dev.starling.jmh {
    requires dev.starling.nn;
    requires info.picocli;
    requires java.management;
    requires jdk.unsupported;
    requires jmh.core;
    requires org.bytedeco.dnnl;
    requires org.bytedeco.openblas;
    requires org.bytedeco.pytorch;

    opens dev.starling.jmh to info.picocli;
}
