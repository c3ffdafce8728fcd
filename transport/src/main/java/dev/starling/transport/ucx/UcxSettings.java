package dev.starling.transport.ucx;

import static dev.starling.transport.TransportException.require;

import dev.starling.transport.TransportException;
import dev.starling.transport.address.HostPort;
import dev.starling.transport.spi.WireConfig;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.regex.Pattern;

/**
 * UCX's configuration: the defaults of this wire, then the options of the transport. UCX itself ignores settings that
 * it does not know; so only known options with plausible values are passed on.
 *
 * @param values by UCX's name, without the prefix of its environment variables
 * @param networkWrites whether UCX performs puts; otherwise they travel as messages, and UCX itself accesses no memory
 * @param onlyTcp whether everything travels over TCP
 */
record UcxSettings(Map<String, String> values, boolean networkWrites, boolean onlyTcp) {
    private static final Pattern SIZE = Pattern.compile("\\d+[kmg]?b?|inf|auto", Pattern.CASE_INSENSITIVE);
    private static final Pattern NUMBER = Pattern.compile("\\d+|inf|auto");
    private static final Pattern TIME = Pattern.compile("\\d+(\\.\\d+)?(m|s|ms|us)|inf");
    private static final Pattern YES_NO = Pattern.compile("y|n|yes|no");
    private static final Pattern NAME = Pattern.compile("\\w+");
    private static final Pattern DEVICES = Pattern.compile("[\\w.-][\\w:.-]*(,[\\w.-][\\w:.-]*)*");

    private static final String NETWORKS = "tcp|ib|rc|rc_v|rc_x|ud|ud_v|ud_x|dc|dc_x|all";
    private static final String OTHERS = "sm|shm|mm|posix|sysv|cma|xpmem|knem|self|cuda|rocm|gdr_copy";
    private static final Pattern NETWORK = Pattern.compile(NETWORKS);
    private static final Pattern TRANSPORTS = Pattern.compile("\\^?(T)(,(T))*".replace("T", NETWORKS + "|" + OTHERS));
    /** Networks whose adapters themselves write into memory, and check that it is registered. */
    private static final Pattern WRITING = Pattern.compile("ib|rc|rc_v|rc_x|dc|dc_x|all");
    private static final String NOT_SHARED_MEMORY = "^posix,sysv,cma,xpmem,knem";

    private static final int DEFAULT_BULK = 128 << 10;

    private static final Map<String, Option> OPTIONS = options();

    private record Option(String setting, Pattern pattern) { }

    private static Map<String, Option> options() {
        Map<String, Option> all = new TreeMap<>();
        all.put("tls", new Option("TLS", TRANSPORTS));
        all.put("devices", new Option("NET_DEVICES", DEVICES));
        all.put("writes", new Option("", Pattern.compile("network|messages")));
        all.put("log", new Option("LOG_LEVEL", Pattern.compile("fatal|error|warn|diag|info|debug")));
        for (String name : List.of("BCOPY_THRESH", "ZCOPY_THRESH", "RNDV_THRESH", "SEG_SIZE")) {
            all.put("UCX_" + name, new Option(name, SIZE));
        }
        for (String name : List.of("MAX_EAGER_RAILS", "MAX_RNDV_RAILS", "NUM_EPS", "NUM_PPN", "KEEPALIVE_NUM_EPS")) {
            all.put("UCX_" + name, new Option(name, NUMBER));
        }
        for (String name : List.of("CM_USE_ALL_DEVICES", "PROTO_ENABLE", "ADAPTIVE_PROGRESS", "UNIFIED_MODE")) {
            all.put("UCX_" + name, new Option(name, YES_NO));
        }
        all.put("UCX_KEEPALIVE_INTERVAL", new Option("KEEPALIVE_INTERVAL", TIME));
        all.put("UCX_RNDV_SCHEME", new Option("RNDV_SCHEME", NAME));
        all.put("UCX_SOCKADDR_TLS_PRIORITY", new Option("SOCKADDR_TLS_PRIORITY", NAME));
        all.put("UCX_IB_GID_INDEX", new Option("IB_GID_INDEX", NUMBER));
        all.put("UCX_IB_TRAFFIC_CLASS", new Option("IB_TRAFFIC_CLASS", NUMBER));
        // TCP's settings have short names when set through the library rather than the environment.
        for (String name : List.of("TX_SEG_SIZE", "RX_SEG_SIZE", "SENDV_THRESH", "SNDBUF", "RCVBUF")) {
            all.put("UCX_TCP_" + name, new Option(name, SIZE));
        }
        for (String name : List.of("MAX_POLL", "MAX_IOV", "MAX_CONN_RETRIES", "KEEPCNT")) {
            all.put("UCX_TCP_" + name, new Option(name, NUMBER));
        }
        for (String name : List.of("PUT_ENABLE", "NODELAY", "PREFER_DEFAULT", "CONN_NB")) {
            all.put("UCX_TCP_" + name, new Option(name, YES_NO));
        }
        for (String name : List.of("KEEPIDLE", "KEEPINTVL")) {
            all.put("UCX_TCP_" + name, new Option(name, TIME));
        }
        return all;
    }

    static UcxSettings of(WireConfig config) {
        Map<String, String> values = new LinkedHashMap<>();
        // UCX would print to standard output what this wire reports by return codes and exceptions.
        values.put("LOG_LEVEL", "fatal");
        values.put("TLS", config.sharedMemory() ? "all" : NOT_SHARED_MEMORY);
        // Without this, links that detect a dead peer never use shared memory.
        values.put("MM_ERROR_HANDLING", "y");
        // One segment holds a message of half a megabyte and its envelope, so that no message is reassembled.
        values.put("TX_SEG_SIZE", "520k");
        values.put("RX_SEG_SIZE", "520k");
        config.options().forEach((name, value) -> {
            require(OPTIONS.containsKey(name), "the ucx wire has no option '" + name + "'",
                    "its options are " + OPTIONS.keySet());
            Option option = Objects.requireNonNull(OPTIONS.get(name));
            require(option.pattern.matcher(value).matches(), "'" + value + "' is not a value of the option '" + name
                    + "'", "values must match " + option.pattern);
            values.put(option.setting, value);
        });
        String writes = values.remove("");
        String tls = values.get("TLS");
        List<String> names = Arrays.asList(tls.split(","));
        if (!tls.startsWith("^") && names.stream().noneMatch(name -> NETWORK.matcher(name).matches())) {
            // UCX makes connections over sockets, whatever carries the messages later.
            values.put("TLS", tls + ",tcp");
        }
        for (String device : config.options().getOrDefault("devices", "all").split(",")) {
            require(device.equals("all") || exists(device), "there is no network device '" + device + "' here",
                    "see: ip link, and /sys/class/infiniband");
        }
        boolean onlyTcp = tls.equals("tcp") || tls.equals(NOT_SHARED_MEMORY) && !hasRdma(tls);
        if (onlyTcp) {
            // A peer is reached through one device; the others would carry messages of this host out of order.
            values.putIfAbsent("CM_USE_ALL_DEVICES", "n");
        }
        boolean networkWrites = writes == null ? hasRdma(tls) : writes.equals("network");
        if (!networkWrites) {
            values.putIfAbsent("PUT_ENABLE", "n");
        }
        restrictDevices(config, tls, values);
        return new UcxSettings(values, networkWrites, onlyTcp);
    }

    /**
     * UCX listens at every device that it may use. Where only TCP connects hosts, or peers are on this host only, that
     * is the device of the configured address, unless an option names devices: a stranger in another network finds no
     * open port.
     */
    private static void restrictDevices(WireConfig config, String tls, Map<String, String> values) {
        InetAddress host = HostPort.resolve(config.host(), config.port()).getAddress();
        if (!hasRdma(tls) || host.isLoopbackAddress() && !config.options().containsKey("tls")) {
            try {
                NetworkInterface device = NetworkInterface.getByInetAddress(host);
                if (device != null && exists(device.getName())) {
                    values.putIfAbsent("NET_DEVICES", device.getName().split(":")[0]);
                }
            } catch (SocketException e) {
                throw new TransportException(TransportException.Problem.UNAVAILABLE,
                        "cannot list the network devices: " + e.getMessage(), "name them: option devices", e);
            }
        }
    }

    private static boolean hasRdma(String tls) {
        return Files.isDirectory(Path.of("/sys/class/infiniband")) && !tls.equals("tcp");
    }

    /** Returns whether software performs writes between hosts, because no adapter may. */
    boolean emulatesWrites() {
        String tls = values.getOrDefault("TLS", "all");
        String devices = values.getOrDefault("NET_DEVICES", "all");
        boolean named = Arrays.stream(tls.replace("^", "").split(",")).anyMatch(WRITING.asMatchPredicate());
        boolean adapter = devices.equals("all") ? hasRdma(tls)
                : Arrays.stream(devices.split(",")).anyMatch(UcxSettings::isAdapter);
        return !adapter || named == tls.startsWith("^");
    }

    private static boolean isAdapter(String device) {
        return Files.exists(Path.of("/sys/class/infiniband", device.split(":")[0]));
    }

    private static boolean exists(String device) {
        return isAdapter(device) || Files.exists(Path.of("/sys/class/net", device.split(":")[0]));
    }

    /** Returns the length of the messages that carry bulk data fastest: what fits into one segment of TCP. */
    int bulkLength() {
        String size = values.getOrDefault("RX_SEG_SIZE", "").toLowerCase(Locale.ROOT);
        if (!size.matches("\\d{1,6}k?b?")) {
            return DEFAULT_BULK;
        }
        int bytes = Integer.parseInt(size.replaceAll("\\D", "")) * (size.contains("k") ? 1024 : 1);
        return Math.clamp(Integer.highestOneBit(Math.max(1, bytes - 1)), 32 << 10, UcxWire.MAX_MESSAGE);
    }
}
