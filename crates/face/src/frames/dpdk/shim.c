// The part of DPDK that byname uses. DPDK's calls for packets are macros and inline functions, so they need C.
//
// Negative results are negated errno values. `device.rs` declares the same functions, and its SAFETY comments state
// what it relies on.

#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>

// Maximum number of frames in one call; the same as BURST in device.rs.
#define BURST 64
// Buffers in a thread's cache, in addition to those in rings.
#define CACHE 256

// Open devices, because DPDK does not refuse to probe a device again. Only one thread at a time changes this.
static bool is_open[RTE_MAX_ETHPORTS];

struct byname_dpdk_settings {
    uint16_t mtu;
    uint16_t receive_slots;
    uint16_t transmit_slots;
    uint16_t queues; // wanted in each direction
    bool promiscuous;
    bool all_groups;
    bool has_group;
    uint8_t group[RTE_ETHER_ADDR_LEN];
};

struct byname_dpdk_device {
    struct rte_mempool *pool;
    uint16_t port;
    uint16_t mtu;
    uint16_t queues;
    uint8_t address[RTE_ETHER_ADDR_LEN];
};

struct byname_dpdk_frame {
    struct rte_mbuf *buffer;
    uint8_t *bytes;
    uint32_t len;   // of a new frame: its capacity
    bool is_whole;  // false: it continues in other buffers
    bool is_tagged; // it is of a VLAN, and the driver has removed the tag
};

// Starts the environment. `arguments` are for EAL; the first is its name for the program.
int byname_dpdk_start(int count, char **arguments) {
    cpu_set_t before;
    char lcore[32] = "--lcores=0@0";
    char *all[RTE_MAX_LCORE];
    if (count < 1 || count + 2 > RTE_MAX_LCORE)
        return -E2BIG;
    bool known = sched_getaffinity(0, sizeof before, &before) == 0;
    if (known)
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &before)) {
                snprintf(lcore, sizeof lcore, "--lcores=0@%d", cpu);
                break;
            }
    all[0] = arguments[0];
    all[1] = lcore;
    memcpy(all + 2, arguments + 1, (count - 1) * sizeof *all);
    // By default DPDK logs to standard output and to the system's log.
    rte_openlog_stream(stderr);
    int done = rte_eal_init(count + 1, all);
    int error = rte_errno;
    // rte_eal_init binds this thread to one processor, and so all threads that it starts later. Undo that.
    if (known)
        sched_setaffinity(0, sizeof before, &before);
    return done < 0 ? (error > 0 ? -error : -EIO) : 0;
}

// Gives a thread its own cache of buffers until it leaves.
void byname_dpdk_enter(void) {
    if (rte_lcore_id() == LCORE_ID_ANY)
        rte_thread_register();
}

void byname_dpdk_leave(void) {
    rte_thread_unregister();
}

void byname_dpdk_close(struct byname_dpdk_device *device) {
    uint16_t port = device->port;
    struct rte_eth_dev_info info;
    int done = rte_eth_dev_info_get(port, &info);
    rte_eth_dev_stop(port);
    rte_eth_dev_close(port);
    if (done == 0)
        rte_dev_remove(info.device);
    rte_mempool_free(device->pool);
    is_open[port] = false;
}

// Configures as many queues as the device can have, of those that are wanted.
static int configure_queues(struct byname_dpdk_device *device, const struct byname_dpdk_settings *settings) {
    struct rte_eth_dev_info info;
    int done = rte_eth_dev_info_get(device->port, &info);
    if (done < 0)
        return done;
    uint16_t most = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
    device->queues = RTE_MAX(RTE_MIN(settings->queues, most), 1);
    struct rte_eth_conf conf = {.rxmode = {.mq_mode = RTE_ETH_MQ_RX_NONE, .mtu = settings->mtu}};
    if (device->queues > 1) {
        // Frames that are not IP have no flow. Some cards hash their addresses instead.
        uint64_t flows = RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_L2_PAYLOAD;
        conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & flows;
        if (conf.rx_adv_conf.rss_conf.rss_hf != 0)
            conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        if (rte_eth_dev_configure(device->port, device->queues, device->queues, &conf) >= 0)
            return 0;
        device->queues = 1;
        conf.rx_adv_conf.rss_conf.rss_hf = 0;
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
    }
    return rte_eth_dev_configure(device->port, 1, 1, &conf);
}

static int configure(struct byname_dpdk_device *device, const struct byname_dpdk_settings *settings) {
    uint16_t port = device->port;
    int done = configure_queues(device, settings);
    if (done < 0)
        return done;
    if ((done = rte_eth_dev_get_mtu(port, &device->mtu)) < 0)
        return done;
    uint16_t receive = settings->receive_slots, transmit = settings->transmit_slots;
    if ((done = rte_eth_dev_adjust_nb_rx_tx_desc(port, &receive, &transmit)) < 0)
        return done;
    // A buffer holds a whole frame with up to two VLAN tags.
    uint32_t room = device->mtu + RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN + 2 * RTE_VLAN_HLEN;
    room = RTE_PKTMBUF_HEADROOM + RTE_MAX(RTE_ALIGN(room, 64u), (uint32_t)RTE_MBUF_DEFAULT_DATAROOM);
    char name[RTE_MEMPOOL_NAMESIZE];
    snprintf(name, sizeof name, "byname%u", port);
    int socket = rte_eth_dev_socket_id(port);
    uint32_t of_queue = receive + transmit + 2 * BURST + CACHE;
    device->pool = rte_pktmbuf_pool_create(name, device->queues * of_queue + CACHE, CACHE, 0,
                                           RTE_MIN(room, (uint32_t)UINT16_MAX), socket);
    if (device->pool == NULL)
        return rte_errno > 0 ? -rte_errno : -ENOMEM;
    for (uint16_t queue = 0; queue < device->queues; queue++) {
        if ((done = rte_eth_rx_queue_setup(port, queue, receive, socket, NULL, device->pool)) < 0)
            return done;
        if ((done = rte_eth_tx_queue_setup(port, queue, transmit, socket, NULL)) < 0)
            return done;
    }
    if ((done = rte_eth_dev_start(port)) < 0)
        return done;
    struct rte_ether_addr address;
    if ((done = rte_eth_macaddr_get(port, &address)) < 0)
        return done;
    memcpy(device->address, address.addr_bytes, sizeof device->address);
    // Errors are ignored: a driver without these settings hears everything.
    if (settings->promiscuous)
        rte_eth_promiscuous_enable(port);
    if (settings->all_groups)
        rte_eth_allmulticast_enable(port);
    if (settings->has_group) {
        struct rte_ether_addr group;
        memcpy(group.addr_bytes, settings->group, sizeof settings->group);
        if (rte_eth_dev_set_mc_addr_list(port, &group, 1) < 0)
            rte_eth_allmulticast_enable(port);
    }
    return 0;
}

// Finds a device by EAL's name for it, which may contain arguments for its driver, and starts it.
int byname_dpdk_open(const char *name, const struct byname_dpdk_settings *settings, struct byname_dpdk_device *device) {
    int done = rte_dev_probe(name);
    // Many drivers return -1, the number of EPERM, for every failure.
    if (done < 0)
        return done == -1 ? -EIO : done;
    struct rte_dev_iterator iterator;
    uint16_t port = RTE_MAX_ETHPORTS;
    if (rte_eth_iterator_init(&iterator, name) == 0)
        port = rte_eth_iterator_next(&iterator);
    if (port == RTE_MAX_ETHPORTS)
        return -ENODEV;
    rte_eth_iterator_cleanup(&iterator);
    if (is_open[port])
        return -EEXIST;
    is_open[port] = true;
    *device = (struct byname_dpdk_device){.port = port};
    if ((done = configure(device, settings)) < 0)
        byname_dpdk_close(device);
    return done == -1 ? -EIO : done;
}

// Returns 1 if the device has a link.
int byname_dpdk_is_up(uint16_t port) {
    struct rte_eth_link link;
    return rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

// Number of frames lost because nobody took them in time, or because there was no buffer.
uint64_t byname_dpdk_missed(uint16_t port) {
    struct rte_eth_stats stats;
    return rte_eth_stats_get(port, &stats) == 0 ? stats.imissed + stats.rx_nombuf : 0;
}

// Receives up to BURST frames.
uint32_t byname_dpdk_receive(uint16_t port, uint16_t queue, struct byname_dpdk_frame *frames) {
    struct rte_mbuf *buffers[BURST];
    uint16_t count = rte_eth_rx_burst(port, queue, buffers, BURST);
    for (uint16_t n = 0; n < count; n++) {
        struct rte_mbuf *buffer = buffers[n];
        frames[n] = (struct byname_dpdk_frame){
            .buffer = buffer,
            .is_whole = buffer->nb_segs == 1 || rte_pktmbuf_linearize(buffer) == 0,
            .is_tagged = (buffer->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) && (buffer->vlan_tci & 0xfff) != 0,
            .bytes = rte_pktmbuf_mtod(buffer, uint8_t *),
            .len = buffer->data_len,
        };
    }
    return count;
}

// Allocates a buffer for a frame to write. Returns 1 if there was one.
int byname_dpdk_allocate(struct rte_mempool *pool, struct byname_dpdk_frame *frame) {
    struct rte_mbuf *buffer = rte_pktmbuf_alloc(pool);
    if (buffer == NULL)
        return 0;
    *frame = (struct byname_dpdk_frame){
        .buffer = buffer,
        .bytes = rte_pktmbuf_mtod(buffer, uint8_t *),
        .len = rte_pktmbuf_tailroom(buffer),
    };
    return 1;
}

// Sends up to BURST frames with `len` written bytes each. Returns how many were taken, from the first on.
uint32_t byname_dpdk_transmit(uint16_t port, uint16_t queue, const struct byname_dpdk_frame *frames, uint32_t count) {
    struct rte_mbuf *buffers[BURST];
    count = RTE_MIN(count, (uint32_t)BURST);
    for (uint32_t n = 0; n < count; n++) {
        buffers[n] = frames[n].buffer;
        buffers[n]->data_len = frames[n].len;
        buffers[n]->pkt_len = frames[n].len;
    }
    return rte_eth_tx_burst(port, queue, buffers, count);
}

void byname_dpdk_free(const struct byname_dpdk_frame *frames, uint32_t count) {
    for (uint32_t n = 0; n < count; n++)
        rte_pktmbuf_free(frames[n].buffer);
}
