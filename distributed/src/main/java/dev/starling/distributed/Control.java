package dev.starling.distributed;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** What members and coordinator say to each other. */
sealed interface Control {
    /** Most members of a group. */
    int MAX_MEMBERS = 4096;

    /** A process wants to belong. {@code wish} is the rank it would like, or -1. */
    record Join(String address, String host, int wish) implements Control { }

    /** Who belongs from now on; {@code id} is the receiver's. */
    record NewView(long id, View view) implements Control { }

    /** The sender has reached all members of the epoch. */
    record Ready(long epoch) implements Control { }

    /** All members have reached each other. */
    record Start(long epoch) implements Control { }

    /** The sender cannot reach a member, and has not heard it for so long. */
    record Suspect(long epoch, long id, long unheardNs, String reason) implements Control {
        /** Makes what the sender says when it has lost a member. */
        static Suspect of(long epoch, long id, PeerLostException loss, String reason) {
            return new Suspect(epoch, id, loss.unheard().toNanos(), reason);
        }
    }

    /** A member is lost, and the group ends with it. */
    record Lost(long epoch, int rank, long unheardNs, String reason) implements Control { }

    /** The receiver does not belong, or no longer. */
    record Refused(String reason) implements Control { }

    /** The sender is done. */
    record Leave() implements Control { }

    /** Returns this as bytes. */
    default byte[] encode() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            switch (this) {
                case Join m -> {
                    out.writeByte(1);
                    out.writeUTF(m.address);
                    out.writeUTF(m.host);
                    out.writeInt(m.wish);
                }
                case NewView m -> {
                    out.writeByte(2);
                    out.writeLong(m.id);
                    write(out, m.view);
                }
                case Ready m -> {
                    out.writeByte(3);
                    out.writeLong(m.epoch);
                }
                case Start m -> {
                    out.writeByte(4);
                    out.writeLong(m.epoch);
                }
                case Suspect m -> {
                    out.writeByte(5);
                    out.writeLong(m.epoch);
                    out.writeLong(m.id);
                    out.writeLong(m.unheardNs);
                    out.writeUTF(m.reason);
                }
                case Lost m -> {
                    out.writeByte(6);
                    out.writeLong(m.epoch);
                    out.writeInt(m.rank);
                    out.writeLong(m.unheardNs);
                    out.writeUTF(m.reason);
                }
                case Refused m -> {
                    out.writeByte(7);
                    out.writeUTF(m.reason);
                }
                case Leave m -> out.writeByte(8);
            }
        } catch (IOException e) {
            throw new IllegalStateException("memory does not fail", e);
        }
        return bytes.toByteArray();
    }

    private static void write(DataOutputStream out, View view) throws IOException {
        out.writeLong(view.epoch());
        out.writeInt(view.world());
        for (Member member : view.members()) {
            out.writeLong(member.id());
            out.writeUTF(member.address());
            out.writeUTF(member.host());
        }
    }

    /**
     * Reads a message.
     *
     * @throws IOException if the bytes are none
     */
    static Control decode(byte[] bytes) throws IOException {
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
            return switch (in.readByte()) {
                case 1 -> new Join(in.readUTF(), in.readUTF(), in.readInt());
                case 2 -> new NewView(in.readLong(), readView(in));
                case 3 -> new Ready(in.readLong());
                case 4 -> new Start(in.readLong());
                case 5 -> new Suspect(in.readLong(), in.readLong(), in.readLong(), in.readUTF());
                case 6 -> new Lost(in.readLong(), in.readInt(), in.readLong(), in.readUTF());
                case 7 -> new Refused(in.readUTF());
                case 8 -> new Leave();
                default -> throw new IOException("not a control message");
            };
        }
    }

    private static View readView(DataInputStream in) throws IOException {
        long epoch = in.readLong();
        int world = in.readInt();
        if (world < 1 || world > MAX_MEMBERS) {
            throw new IOException("a view of " + world + " members");
        }
        List<Member> members = new ArrayList<>();
        for (int rank = 0; rank < world; rank++) {
            members.add(new Member(in.readLong(), rank, in.readUTF(), in.readUTF()));
        }
        return new View(epoch, members);
    }
}
