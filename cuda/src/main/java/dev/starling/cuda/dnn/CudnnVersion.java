package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.cudnnGetVersion;

/** Which cuDNN there is. */
public final class CudnnVersion {
    private CudnnVersion() { }

    /** Returns the version of the library, for example 9.19.0; throws a {@link LinkageError} where there is none. */
    public static String inWords() {
        return words(cudnnGetVersion());
    }

    /** Tells whether it has what attention needs. */
    public static boolean attends() {
        return cudnnGetVersion() >= CudnnAttender.LEAST_VERSION;
    }

    static String words(long version) {
        return version / 10000 + "." + version / 100 % 100 + "." + version % 100;
    }
}
