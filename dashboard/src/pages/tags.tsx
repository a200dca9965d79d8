import { useState } from 'preact/hooks';
import { withQuery } from '../api';
import { whole } from '../format';
import { usePolled } from '../store';
import type { DescriptorPage, TreePage } from '../types';
import { Badge, Card, Empty, FaceLink, Page, Search, Trouble, useSettled } from '../ui';

export function Tags() {
  const trees = usePolled<TreePage>('trees', 5000);
  const [search, setSearch] = useState('');
  const asked = useSettled(search, 300);
  const descriptors = usePolled<DescriptorPage>(withQuery('descriptors', { tags: asked, limit: 100 }), 5000);
  return (
    <Page title="Tags and trees" lead="Packets may ask by sets of tags instead of a name. Trees connect the routers that forward them, and a locator is a place on a tree.">
      <Trouble text={trees.error ?? descriptors.error} />
      <Card title="Trees and locators" note={trees.data ? `${trees.data.trees.length} ${trees.data.trees.length === 1 ? 'tree' : 'trees'}` : ''}>
        {trees.data?.trees.length === 0 && <Empty>This router is on no tree. The sections [tags] and [routing] of the configuration put it on some.</Empty>}
        <ul class="rows">
          {trees.data?.trees.map((tree) => (
            <li key={tree.tree}>
              <b>Tree {tree.tree}</b>
              <span>
                <span class="note">locator</span> <span class="name">{tree.label === null ? 'none' : `${tree.tree}:${tree.label}`}</span>
              </span>
              <span class="grow wrap">
                {tree.neighbors.map((neighbor) => (
                  <span key={neighbor.face_id} class="neighbor">
                    <FaceLink id={neighbor.face_id} uri={neighbor.remote_uri} /> {neighbor.signed && <Badge tone="good">signed</Badge>}
                  </span>
                ))}
              </span>
            </li>
          ))}
        </ul>
      </Card>
      <Card title="Descriptors" note={trees.data ? `${whole(trees.data.descriptors)} in the FIB` : ''}>
        <div class="tools">
          <Search label="Tags of a packet" placeholder="Tags of a packet, with commas between: concert, classical" value={search} onInput={setSearch} />
        </div>
        {descriptors.data?.descriptors.length === 0 && <Empty>{asked ? 'No descriptor is a subset of these tags: the packet would go nowhere.' : 'Nobody has advertised a descriptor.'}</Empty>}
        <ul class="rows">
          {descriptors.data?.descriptors.map((one, place) => (
            <li key={place}>
              <span class="grow tag-set">
                {one.tags.length === 0 && <span class="note">the empty set: every packet</span>}
                {one.tags.map((tag) => (
                  <span key={tag} class="tag">
                    {tag}
                  </span>
                ))}
              </span>
              <span class="wrap">
                {one.nexthops.map((hop) => (
                  <span key={`${hop.tree} ${hop.face_id}`} class="neighbor">
                    <FaceLink id={hop.face_id} /> <span class="note">tree {hop.tree}</span>
                  </span>
                ))}
              </span>
            </li>
          ))}
        </ul>
        {descriptors.data?.next != null && <p class="note">There are more. Tags of a packet find those that it meets.</p>}
        <p class="note">Routers know a tag by a digest. A digest is shown as its tag only if you have typed the tag.</p>
      </Card>
    </Page>
  );
}
