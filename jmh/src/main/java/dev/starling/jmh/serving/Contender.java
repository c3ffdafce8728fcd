package dev.starling.jmh.serving;

import dev.starling.jmh.Model;
import java.util.Map;

/** The servers to compare, each in a process of its own. */
enum Contender {
    STARLING(Map.of()),
    /** DJL with one thread for each operation, which suits several clients. */
    DJL_ONE_THREAD(Map.of("ai.djl.pytorch.num_threads", "1", "ai.djl.pytorch.num_interop_threads", "1")),
    /** DJL as it comes: each operation uses all processors, which suits one client. */
    DJL(Map.of());

    private final Map<String, String> properties;

    Contender(Map<String, String> properties) {
        this.properties = properties;
    }

    /** Returns variables of the environment with which the server is fastest. */
    Map<String, String> environment() {
        return this == STARLING ? Map.of() : dev.starling.jmh.Contender.KEEP_MEMORY;
    }

    Server start(Model model) {
        if (this == STARLING) {
            return new StarlingServer(model);
        }
        properties.forEach(System::setProperty);
        System.setProperty("ai.djl.offline", "true");
        System.setProperty("OPT_OUT_TRACKING", "true");
        return new DjlServer(model);
    }
}
