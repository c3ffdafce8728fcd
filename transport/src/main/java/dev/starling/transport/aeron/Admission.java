package dev.starling.transport.aeron;

import io.aeron.driver.DataPacketDispatcher;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.media.ReceiveChannelEndpoint;
import io.aeron.driver.media.UdpChannel;
import io.aeron.protocol.DataHeaderFlyweight;
import io.aeron.protocol.SetupFlyweight;
import java.lang.System.Logger.Level;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.function.IntSupplier;
import org.agrona.collections.Int2ObjectHashMap;
import org.agrona.concurrent.NanoClock;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.status.AtomicCounter;

/**
 * The socket of a wire. Aeron allocates memory for each sender that announces itself, as much as the announcement asks
 * for, before any handshake can begin. This socket passes an announcement on only if its terms are no longer than the
 * wire's own, and if there are not many more senders than the wire has links, in all and from one address: what a
 * stranger's datagrams can allocate is bounded, and a stranger at one address keeps no process at another out.
 */
final class Admission extends ReceiveChannelEndpoint {
    private static final int MAX_UNPROVEN = 16;
    private static final int MAX_UNPROVEN_OF_ADDRESS = 8;
    /** For each link a sender, and another one that a restarted process has left behind. */
    private static final int SENDERS_PER_LINK = 2;

    private final int maxTerm;
    /** How long Aeron keeps the memory of a sender that is silent. */
    private final long memoryNs;
    private final IntSupplier maxLinks;
    private final NanoClock clock;
    private final Int2ObjectHashMap<Sender> senders = new Int2ObjectHashMap<>();
    private boolean reported;

    /** A sender that was admitted. */
    private static final class Sender {
        private final InetAddress address;
        private long lastReceivedNs;

        Sender(InetAddress address) {
            this.address = address;
        }
    }

    /** Creates the socket of a wire; {@code maxLinks} is how many links it has had at the same time. */
    Admission(UdpChannel channel, DataPacketDispatcher dispatcher, AtomicCounter status, MediaDriver.Context context,
            AeronSettings settings, IntSupplier maxLinks) {
        super(channel, dispatcher, status, context);
        maxTerm = settings.term();
        memoryNs = 2 * settings.imageLivenessNs();
        clock = context.receiverCachedNanoClock();
        this.maxLinks = maxLinks;
    }

    @Override
    public void onSetupMessage(SetupFlyweight header, UnsafeBuffer buffer, int length, InetSocketAddress source,
            int transportIndex) {
        if (header.streamId() != AeronWire.networkStream()) {
            return;
        }
        // Of known senders, too: Aeron has no memory yet for one that it has not accepted, or has forgotten.
        if (header.termLength() > maxTerm) {
            refuse(source, "its terms have " + header.termLength() + " bytes, those of this process " + maxTerm
                    + ": set the same option term in all processes");
            return;
        }
        Sender sender = senders.get(header.sessionId());
        if (sender == null) {
            if (!hasRoom(source.getAddress())) {
                refuse(source, senders.size() + " senders are here already, most without a proof of the secret");
                return;
            }
            sender = new Sender(source.getAddress());
            senders.put(header.sessionId(), sender);
        }
        sender.lastReceivedNs = clock.nanoTime();
        super.onSetupMessage(header, buffer, length, source, transportIndex);
    }

    @Override
    public int onDataPacket(DataHeaderFlyweight header, UnsafeBuffer buffer, int length, InetSocketAddress source,
            int transportIndex) {
        Sender sender = senders.get(header.sessionId());
        if (sender == null) {
            return 0;
        }
        sender.lastReceivedNs = clock.nanoTime();
        return super.onDataPacket(header, buffer, length, source, transportIndex);
    }

    private boolean hasRoom(InetAddress address) {
        int proven = SENDERS_PER_LINK * maxLinks.getAsInt();
        if (senders.size() >= MAX_UNPROVEN_OF_ADDRESS + proven) {
            long now = clock.nanoTime();
            senders.values().removeIf(sender -> now - sender.lastReceivedNs > memoryNs);
        }
        return senders.size() < MAX_UNPROVEN + proven && senders.values().stream()
                .filter(sender -> sender.address.equals(address)).count() < MAX_UNPROVEN_OF_ADDRESS + proven;
    }

    private void refuse(InetSocketAddress source, String why) {
        AeronWire.LOG.log(reported ? Level.DEBUG : Level.WARNING, "refused a link from {0}: {1}", source, why);
        reported = true;
    }
}
