package dev.starling.cuda.gpu;

import org.bytedeco.javacpp.Loader;

/** NVIDIA's libraries in messages: their versions, and where users get them, by installing or from Maven Central. */
public final class Redist {
    private static final String VERSION = "13.1-9.19-1.5.13";

    private Redist() { }

    /** Returns a version, for example 9.19.0, given in the libraries' own numbering: 91900. */
    public static String version(long number) {
        return number / 10000 + "." + number / 100 % 100 + "." + number % 100;
    }

    /**
     * Returns how to get a library, for messages.
     *
     * @param library the library's name
     * @param part what follows "cuda-redist" in the artifact's name, empty for the runtime and NVRTC
     */
    public static String remedy(String library, String part) {
        String platform = Loader.Detector.getPlatform();
        return "install " + library + " and put its folder on " + (platform.startsWith("windows") ? "PATH"
                : "LD_LIBRARY_PATH") + ", or add org.bytedeco:cuda-redist" + part + ":" + VERSION + " with classifier "
                + platform + " to the class path";
    }
}
